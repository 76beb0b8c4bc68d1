// Package counting counts the calls of a type by method, outcome and duration, in the path of each
// call. Nothing has to be switched on, and reading the counts does not hold up calls.
//
// A call whose time is known anyway adds one to a bucket of a histogram ([Durations]). A call that
// runs within its caller, without a clock, adds one to a word of its shard's stripe ([Words]): one
// atomic operation. Of these calls about one in 64 is timed, and of those that take more than 4 µs
// more: each from 256 µs on. The others count with the duration of the timed call before them, so
// counts are exact, and durations a sample.
package counting

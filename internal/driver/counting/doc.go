// Package counting counts the calls of a type by method, outcome and duration, in the path of each
// call. Nothing has to be switched on, and reading the counts does not hold up calls.
//
// A call that is timed anyway adds one to a bucket of a histogram ([Durations]). A call that runs
// untimed on its caller's goroutine adds one to a word of its shard's stripe ([Words]), by one
// atomic operation. About one in 64 of these calls is timed. Of calls that take more than 4 µs a
// larger share is timed, and from 256 µs on each call. An untimed call counts with the duration of
// the timed call before it. So counts are exact, and durations are a sample.
package counting

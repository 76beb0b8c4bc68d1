// Package wallclock runs programs whose wall clock is wrong, while that of the
// machine and of all other processes stays right.
//
// Linux has no wall clock of a process's own: a time namespace shifts only the
// monotonic clocks, and Go programs read the clock without the C library, so that
// it cannot be replaced from outside. [Build] therefore builds the program with a
// package time of its own, by go build -overlay: time.Now adds a shift of whole
// seconds to the time that it reads, and is otherwise the standard library's.
//
// So a program with a [Shift] behaves as if its machine's clock had been set. Everything in it
// that reads the wall clock in Go is shifted at once, all libraries included.
// Timers, deadlines and time.Since use the monotonic clock and are not shifted, as
// they are not when a machine's clock is set. The shift covers neither the clock's rate
// nor the times that the kernel gives to files.
package wallclock

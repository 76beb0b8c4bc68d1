// Package runtoken keeps one slow turn from holding up the turns behind it. Turns of a series
// run one after another on the goroutine that has the series's Token. A Watchdog takes the
// Token from a turn that runs for long and gives it to another goroutine, and a
// SlowTurnDetector finds the series whose turns are better run on goroutines of their own.
// The Watchdog also has a clock that is cheap to read, for turns that are too short to read
// the real one.
package runtoken

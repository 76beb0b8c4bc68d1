// Package runtoken keeps one slow turn from holding up the turns behind it. Turns of a series run
// one after another on the goroutine that has the series's Token. A Watchdog takes the Token from a
// long turn and gives it to another goroutine, and a SlowTurnDetector finds series with turns that
// should run on goroutines of their own. The Watchdog also has a clock for short turns, cheaper
// than the real one.
package runtoken

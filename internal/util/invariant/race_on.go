//go:build race

package invariant

// Race reports whether the race detector is compiled in. If it is, tests of simulations run fewer
// seeds: the detector makes them many times slower, and finds nothing in a state machine, which
// runs on one goroutine.
const Race = true

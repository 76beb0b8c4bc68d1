//go:build !race

package invariant

// Race reports whether the race detector is compiled in. If so, tests of simulations run fewer
// seeds, because the detector takes many times as long and finds nothing in a state machine, which
// has one goroutine.
const Race = false

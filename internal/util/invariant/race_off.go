//go:build !race

package invariant

// Race reports whether the race detector is compiled in. Tests of simulations run fewer seeds with
// it: a core has one goroutine, so the detector finds nothing there and takes many times as long.
const Race = false

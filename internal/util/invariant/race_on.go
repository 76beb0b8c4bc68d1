//go:build race

package invariant

// Race reports whether the race detector is compiled in. A core has one goroutine, so
// simulations gain nothing from it and take many times as long: their tests then
// run fewer seeds.
const Race = true

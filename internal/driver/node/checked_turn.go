package node

import (
	"flag"

	"github.com/shardgen/shardgen/internal/invariant"
)

// checksTurns reports whether turns of durable entities are checked against the promises of their type: a
// //shard:read method does not change the state, and applying a turn's events gives the turn's final
// state. That is so in tests. Programs and benchmarks do not pay for it: there a change by such a method,
// or beside events, is answered and may be lost, which is logged then: see stateSum.
func checksTurns() bool {
	benchmarks := flag.Lookup("test.bench") // package testing, which this package must not import, defines it
	return invariant.Enabled || benchmarks != nil && benchmarks.Value.String() == ""
}

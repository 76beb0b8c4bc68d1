package shard

import (
	"flag"

	"github.com/shardgen/shardgen/internal/invariant"
)

// checksReads reports whether the state of a durable entity is compared before and after each method
// that is marked //shard:read. That is so in tests. Programs and benchmarks do not pay for it: there
// a change by such a method is answered before it is in the store, and may be lost.
func checksReads() bool {
	benchmarks := flag.Lookup("test.bench") // package testing, which this package must not import, defines it
	return invariant.Enabled || benchmarks != nil && benchmarks.Value.String() == ""
}

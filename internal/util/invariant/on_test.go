//go:build shardgen_invariants

package invariant_test

const tagged = true

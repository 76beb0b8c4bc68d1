//go:build shardgen_invariants

package invariant

// Enabled says whether costly checks run; false compiles them away.
const Enabled = true

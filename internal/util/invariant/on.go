//go:build shardgen_invariants

package invariant

// Enabled says whether costly assertions run. In this build they do.
const Enabled = true

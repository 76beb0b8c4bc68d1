//go:build !shardgen_invariants

package invariant

// Enabled says whether costly assertions run. In this build they are compiled away.
const Enabled = false

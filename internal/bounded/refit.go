package bounded

import "maps"

// refitFrom is how many entries a map must have had before it is worth a copy.
const refitFrom = 64

// Refit returns m, or a copy if m has had at least 64 entries and at least four times as many as it has now, because a
// map keeps the memory of its largest size. most is the largest size that Refit has seen since the last copy. The caller
// keeps it with the map.
func Refit[K comparable, V any](m map[K]V, most *int) map[K]V {
	*most = max(*most, len(m))
	if *most < refitFrom || len(m) > *most/4 {
		return m
	}
	*most = len(m)
	fitting := make(map[K]V, len(m))
	maps.Copy(fitting, m)
	return fitting
}

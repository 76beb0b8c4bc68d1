package bounded

import "maps"

// refitFrom is how many entries a map must have had before it is worth a copy.
const refitFrom = 64

// Refit returns m, or a copy if m has had at least four times as many entries as it has now, and 64: a map keeps the
// memory of its largest size. most is that size since the last copy, of which Refit sees what there is when it is
// called; the caller keeps it with the map.
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

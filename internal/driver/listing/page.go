package listing

import (
	"iter"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/wire"
)

// Bounds of one page at a shard's home. A request can only lower them.
const (
	MaxIDs   = 1000
	MaxBytes = 64 << 10
)

// Best returns the lowest ids that match request r, ascending, at most limit. more reports whether
// more ids match. The iterator all may yield ids in any order. Best holds at most 2*limit ids.
func Best(all iter.Seq[string], r *wire.ListRequest, limit int) (ids []string, more bool) {
	most, bounded := "", false // once bounded is set, only ids below most count
	shorten := func() {
		slices.Sort(ids)
		if len(ids) > limit {
			ids, more = ids[:limit], true
			most, bounded = ids[limit-1], true
		}
	}
	for id := range all {
		switch {
		case id <= r.After || !strings.HasPrefix(id, r.Prefix):
		case bounded && id > most:
			more = true
		default:
			if ids = append(ids, id); len(ids) >= 2*limit {
				shorten()
			}
		}
	}
	shorten()
	return ids, more
}

// Fit returns the first ids of a page: as many as fit in size encoded bytes, but at least one. more
// says that further ids follow the page. The second result is true if Fit has left ids out, or if
// more is true.
func Fit(ids []string, more bool, size int) ([]string, bool) {
	left := size - wire.MaxListHeader
	for i, id := range ids {
		if left -= wire.ListedSize(id); left < 0 && i > 0 {
			return ids[:i], true
		}
	}
	return ids, more
}

// Limits returns the bounds of the answer to a request: the number of ids, and their bytes as
// encoded. largest is the size of the largest answer that the broker accepts.
func Limits(r *wire.ListRequest, largest int) (ids, size int) {
	bound := func(asked uint32, most int) int {
		if asked == 0 || uint64(asked) > uint64(most) {
			return most
		}
		return int(asked)
	}
	return bound(r.Limit, MaxIDs), bound(r.Bytes, min(MaxBytes, largest))
}

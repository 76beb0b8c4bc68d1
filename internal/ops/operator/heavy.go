package operator

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// heavy finds a stream's most frequent keys by Space-Saving (Metwally, Agrawal and El Abbadi,
// 2005): a new key replaces the rarest kept one and continues its count. A key with more than
// 1/size of all counts is kept. A count is too high by at most the lowest count.
type heavy[K comparable] struct {
	size  int
	slots map[K]*slot[K]
	order []*slot[K] // a min-heap by count
}

type slot[K comparable] struct {
	key   K
	at    int // in order
	count uint64
	over  uint64        // the part of count that may belong to other keys
	busy  time.Duration // since key took the slot
}

func newHeavy[K comparable](size int) *heavy[K] {
	return &heavy[K]{size: size, slots: make(map[K]*slot[K], size)}
}

func (h *heavy[K]) add(k K, n uint64, busy time.Duration) {
	s := h.slots[k]
	switch {
	case s != nil:
	case len(h.order) < h.size:
		s = &slot[K]{key: k, at: len(h.order)}
		h.slots[k] = s
		h.order = append(h.order, s)
		h.up(s.at)
	default:
		s = h.order[0]
		delete(h.slots, s.key)
		s.key, s.over, s.busy = k, s.count, 0
		h.slots[k] = s
	}
	s.count, s.busy = s.count+n, s.busy+busy
	h.down(s.at)
}

// top returns the n most frequent keys, with the counts of all heavies added up. A key that some
// heavy has dropped may be a little more frequent than its count.
func top[K comparable](n int, before func(a, b K) int, of ...*heavy[K]) []slot[K] {
	sums := map[K]slot[K]{}
	for _, h := range of {
		for _, s := range h.order {
			sum := sums[s.key]
			sums[s.key] = slot[K]{key: s.key, count: sum.count + s.count, over: sum.over + s.over, busy: sum.busy + s.busy}
		}
	}
	all := slices.SortedFunc(maps.Values(sums), func(a, b slot[K]) int { return cmp.Or(cmp.Compare(b.count, a.count), before(a.key, b.key)) })
	return all[:min(n, len(all))]
}

func (h *heavy[K]) swap(i, j int) {
	h.order[i], h.order[j] = h.order[j], h.order[i]
	h.order[i].at, h.order[j].at = i, j
}

func (h *heavy[K]) up(i int) {
	for i > 0 && h.order[i].count < h.order[(i-1)/2].count {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (h *heavy[K]) down(i int) {
	for {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(h.order) && h.order[child].count < h.order[least].count {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

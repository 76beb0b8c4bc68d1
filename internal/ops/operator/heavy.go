package operator

import (
	"cmp"
	"slices"
)

// heavy finds a stream's most frequent keys by Space-Saving (Metwally, Agrawal and El Abbadi,
// 2005): a new key replaces the rarest kept one and continues its count. A key with more than
// 1/size of all counts is kept. A count is too high by at most the rarest kept key's.
type heavy[K comparable] struct {
	size  int
	slots map[K]*slot[K]
	order []*slot[K] // a min-heap by count
}

type slot[K comparable] struct {
	key   K
	at    int // in order
	count uint64
	over  uint64 // the part of count that may belong to other keys
	busy  int64  // nanoseconds, since it has the slot
}

func newHeavy[K comparable](size int) *heavy[K] {
	return &heavy[K]{size: size, slots: make(map[K]*slot[K], size)}
}

func (h *heavy[K]) add(k K) {
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
	s.count++
	h.down(s.at)
}

func (h *heavy[K]) spend(k K, nanos int64) {
	if s := h.slots[k]; s != nil {
		s.busy += nanos
	}
}

func (h *heavy[K]) top(n int, before func(a, b K) int) []slot[K] {
	all := make([]slot[K], 0, len(h.order))
	for _, s := range h.order {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b slot[K]) int { return cmp.Or(cmp.Compare(b.count, a.count), before(a.key, b.key)) })
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

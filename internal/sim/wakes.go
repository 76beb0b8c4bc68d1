package sim

import "time"

// wakes is a heap of the nodes that wait for a tick, ordered by the time of the tick, then by the
// node's number. Each node keeps its index in the heap, so that the heap finds the node when that
// time changes.
type wakes struct{ nodes []*Node }

func wakesBefore(a, b *Node) bool { return a.wake < b.wake || a.wake == b.wake && a.ID < b.ID }

func (h *wakes) next() *Node {
	if len(h.nodes) == 0 {
		return nil
	}
	return h.nodes[0]
}

func (h *wakes) set(n *Node, at time.Duration) {
	switch {
	case at < 0 && n.place < 0:
	case at < 0:
		h.remove(n)
	case n.place < 0:
		n.wake, n.place = at, len(h.nodes)
		h.nodes = append(h.nodes, n)
		h.up(n.place)
	case at < n.wake:
		n.wake = at
		h.up(n.place)
	case at > n.wake:
		n.wake = at
		h.down(n.place)
	}
}

func (h *wakes) remove(n *Node) {
	i, last := n.place, len(h.nodes)-1
	h.nodes[i] = h.nodes[last]
	h.nodes[i].place = i
	h.nodes = h.nodes[:last]
	n.place = -1
	if i < last {
		moved := h.nodes[i]
		h.up(i)
		h.down(moved.place)
	}
}

func (h *wakes) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !wakesBefore(h.nodes[i], h.nodes[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *wakes) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.nodes) {
			return
		}
		if r := child + 1; r < len(h.nodes) && wakesBefore(h.nodes[r], h.nodes[child]) {
			child = r
		}
		if !wakesBefore(h.nodes[child], h.nodes[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h *wakes) swap(i, j int) {
	h.nodes[i], h.nodes[j] = h.nodes[j], h.nodes[i]
	h.nodes[i].place, h.nodes[j].place = i, j
}

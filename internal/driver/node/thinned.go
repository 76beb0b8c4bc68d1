package node

import (
	"strings"
	"sync"
)

// thinned drops most of the log lines that a process of some name causes, by the name: a flood of
// one name does not hide the lines about others. The zero value is ready for use. It is safe for
// concurrent use.
type thinned struct {
	mu     sync.Mutex
	counts map[thinnedKey]uint64
}

type thinnedKey struct {
	what Reason
	name string
}

// maxThinned bounds the names and reasons that are told apart. Further ones count together.
const maxThinned = 1024

// tell counts a line, and reports whether to log it: the first, second, fourth, eighth and so on of
// a reason and a name. n is their number so far.
func (t *thinned) tell(what Reason, name string) (n uint64, tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := thinnedKey{what, name}
	n, known := t.counts[key]
	switch {
	case known:
	case len(t.counts) >= maxThinned:
		key.name = ""
		n = t.counts[key]
	default:
		key.name = strings.Clone(name) // it may be a part of a message
	}
	if t.counts == nil {
		t.counts = map[thinnedKey]uint64{}
	}
	n++
	t.counts[key] = n
	return n, n&(n-1) == 0
}

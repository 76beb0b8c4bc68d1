package node

import (
	"strings"
	"sync"
	"time"
)

// Bounds of the control messages of processes outside the cluster, for each name granted by the
// broker. A thousand clients need fewer, and all of these messages are repeated.
const (
	// maxOutsiderWaiting bounds those waiting for the control loop, so that heartbeats of members
	// do not wait behind a flood.
	maxOutsiderWaiting = 64
	// maxOutsiderRate bounds those of a second.
	maxOutsiderRate = 4096
	// manyOutsiders is the number of names above which idle ones are removed.
	manyOutsiders = 1024
)

// Outsiders counts control messages of processes that are no members, by name. The zero value is
// empty. It is safe for concurrent use.
type Outsiders struct {
	mu    sync.Mutex
	named map[string]*outsider
}

type outsider struct {
	waiting int
	since   time.Time // of the second in which n counts
	n       int
}

// Enter reports whether a message is to be handled. If so, leave must follow.
func (o *Outsiders) Enter(name string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.named[name]
	if of == nil {
		if o.named == nil {
			o.named = map[string]*outsider{}
		}
		if len(o.named) >= manyOutsiders {
			for other, of := range o.named {
				if of.waiting == 0 && now.Sub(of.since) >= time.Second {
					delete(o.named, other)
				}
			}
		}
		of = &outsider{}
		o.named[strings.Clone(name)] = of
	}
	if now.Sub(of.since) >= time.Second {
		of.since, of.n = now, 0
	}
	if of.waiting >= maxOutsiderWaiting || of.n >= maxOutsiderRate {
		return false
	}
	of.waiting++
	of.n++
	return true
}

// Leave ends a message that was handled.
func (o *Outsiders) Leave(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if of := o.named[name]; of != nil {
		of.waiting--
	}
}

package node

import (
	"strings"
	"sync"
	"time"
)

// Bounds of the control messages from outside the cluster, for each client name. Dropping such a
// message does no harm, because clients repeat all of them.
const (
	// maxOutsiderWaiting bounds a name's messages that wait for the control loop, ahead of members'
	// heartbeats.
	maxOutsiderWaiting = 64
	maxOutsiderRate    = 4096 // messages a second
	// manyOutsiders is the number of names above which idle names are removed.
	manyOutsiders = 1024
)

// Outsiders counts control messages of processes that are not members, by client name. The zero
// value is empty. It is safe for concurrent use.
type Outsiders struct {
	mu    sync.Mutex
	named map[string]*outsider
}

type outsider struct {
	waiting int
	since   time.Time // start of the second in which n counts
	n       int
}

// Enter reports whether to handle a message from a client of that name. If it returns true, the
// caller must call Leave after the message was handled.
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

// Leave records that a message for which Enter has returned true was handled.
func (o *Outsiders) Leave(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if of := o.named[name]; of != nil {
		of.waiting--
	}
}

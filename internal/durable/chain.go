package durable

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/wire"
)

// A chain decides which appends of a log count: those that belong to the highest claim
// before them. Claims are ordered by epoch, and those of one home under one epoch by
// number. The first append that is read counts, for a log is read from a head's since,
// where its writer had an append of its own that counted, or from the log's beginning.
type chain struct {
	known       bool
	epoch       uint64
	incarnation uint64
	claim       uint64
	counter     uint64 // of the home's last append that counted
}

// add reports whether the next append of the log counts.
func (c *chain) add(a *wire.DurableAppend) bool {
	if claimOf(a) != nil {
		return c.addClaim(a)
	}
	if !c.known {
		*c = chain{true, a.GetEpoch(), a.GetIncarnation(), a.GetClaim(), a.GetCounter()}
		return true
	}
	if a.GetEpoch() != c.epoch || a.GetIncarnation() != c.incarnation || a.GetClaim() != c.claim || a.GetCounter() <= c.counter {
		return false
	}
	c.counter = a.GetCounter()
	return true
}

func (c *chain) addClaim(a *wire.DurableAppend) bool {
	same := c.known && a.GetEpoch() == c.epoch && a.GetIncarnation() == c.incarnation
	if c.known && a.GetEpoch() <= c.epoch && (!same || a.GetClaim() <= c.claim) {
		return false // void
	}
	counter := c.counter
	if !same {
		counter = 0
	}
	*c = chain{true, a.GetEpoch(), a.GetIncarnation(), a.GetClaim(), counter}
	return true
}

func (c *chain) String() string {
	return fmt.Sprintf("epoch %d, incarnation %x, claim %d, counter %d", c.epoch, c.incarnation, c.claim, c.counter)
}

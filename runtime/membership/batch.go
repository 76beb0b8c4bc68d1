package membership

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// A batch is what a large cluster's leader is about to down. Every decision is a
// new view for all, with its shards to be moved, so one that loses many members
// at once should get one new view: the leader waits until no more come in.
type batch struct {
	begun, grown time.Time
	victims      []transport.Address // by address
}

const (
	// batchQuiet is how long no victim may have come in, and batchLong how long the
	// first waits at most.
	batchQuiet = time.Second
	batchLong  = 3 * time.Second
)

// downTogether downs the victims; in a large cluster once they are complete. Those
// that others are gathered for are taken in if they are still judged so then.
func (m *Machine) downTogether(victims []gossip.Member) {
	if m.small() {
		m.downMembers(victims, sentence{})
		return
	}
	b := &m.downing.batch
	nodes := gossip.AddressesOf(slices.DeleteFunc(victims, func(r gossip.Member) bool { return r.Status == gossip.Down }))
	if len(nodes) == 0 {
		return
	}
	for _, node := range nodes {
		if !gossip.HasAddress(b.victims, node) {
			b.victims = gossip.WithAddress(b.victims, node)
			b.grown = m.now
			if b.begun.IsZero() {
				b.begun = m.now
			}
		}
	}
}

// runBatch downs what has been gathered, less those who are well again.
func (m *Machine) runBatch() {
	b := &m.downing.batch
	if len(b.victims) == 0 {
		return
	}
	b.victims = slices.DeleteFunc(b.victims, func(node transport.Address) bool {
		r, ok := m.state.Member(node)
		return !ok || r.Status == gossip.Down || m.evidence(node) == gossip.NoEvidence && !gossip.HasAddress(m.downing.picked, node)
	})
	at := b.grown.Add(batchQuiet)
	if last := b.begun.Add(batchLong); last.Before(at) {
		at = last
	}
	switch {
	case len(b.victims) == 0 || !m.leads():
		*b = batch{}
	case m.now.Before(at):
		m.wakeAt(at)
	default:
		var victims []gossip.Member
		for _, node := range b.victims {
			r, _ := m.state.Member(node)
			victims = append(victims, r)
		}
		*b = batch{}
		m.downMembers(victims, sentence{})
	}
}

package durable

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// A Mark identifies a head that a home has written.
type Mark struct {
	Epoch, Write uint64
	Since        store.Position
}

func (h head) mark() Mark {
	return Mark{h.value.GetEpoch(), h.value.GetWrite(), h.stored.Since}
}

func (m Mark) above(h head) bool {
	o := h.mark()
	return m.Epoch > o.Epoch || m.Epoch == o.Epoch && m.Write > o.Write
}

func (m Mark) String() string {
	if m.Epoch == 0 {
		return "none"
	}
	return fmt.Sprintf("epoch %s, write %d, log from %d", EpochText(m.Epoch), m.Write, m.Since)
}

// EpochText formats an epoch of the store: the coordinator's term and counter, and the home's
// attempt.
func EpochText(epoch uint64) string {
	return fmt.Sprintf("%d.%d.%d", epoch>>32, uint32(epoch)>>10, epoch&(1<<10-1))
}

// Mark identifies the last head that this process has written for the shard. That may have been in
// this tenure or in an earlier one.
func (s *Shard) Mark() Mark {
	if s.head.value != nil {
		return s.head.mark()
	}
	return s.config.Known
}

// refuses reports whether the shard cannot accept head h, and if so, acts on h. The tenure ends if
// another home wrote h under this tenure's epoch or a higher one, or if h is marked as lost. If h
// is older than the last head that this process wrote, h is replaced: see lose.
func (s *Shard) refuses(h head) bool {
	switch {
	case h.beyond(s.config):
		s.outgrown(h.value.GetEpoch())
	case h.value.GetLost() != nil:
		s.broken(lostHead(h.value.GetLost()))
	case s.Mark().above(h):
		s.claim.lose(s, h)
	default:
		return false
	}
	return true
}

// lose writes a new head over h, because h is older than the last head that this process wrote. If
// h was a stale read, the store refuses the write. Otherwise the store has lost the process's last
// head and the records written before it. The new head is marked as lost in three cases: the shard
// is not open yet, records of entities may be lost, or another home has claimed the shard under the
// same epoch or appended changes that this home does not know. Only an operator can then open the
// shard.
func (c *claim) lose(s *Shard, h head) {
	if c.step == stepLose {
		return
	}
	c.write.line.close()
	c.write.due, c.step = false, stepLose
	lost := s.Mark()
	now := h.replace(s.config, h.stored.Since, h.value.GetGeneration(), h.value.GetParts())
	now.value.SinceEpoch = h.value.GetSinceEpoch()
	if lost.Epoch == s.config.Epoch {
		now.value.Write = max(lost.Write, s.checkpoint.number()) + 1
	}
	if s.state != Open || s.base.above(h) || c.forked {
		had := h.mark()
		now.value.Lost = &wire.DurableLost{
			Node: s.config.Node, Epoch: lost.Epoch, Write: lost.Write, Since: uint64(lost.Since),
			HadEpoch: had.Epoch, HadWrite: had.Write, HadSince: uint64(had.Since),
		}
	}
	now.stored.Value = seal(now.value)
	c.mend = now
	c.line.ask(&s.desk, Request{Op: OpSetHead, Head: now.stored})
}

func (c *claim) loses(s *Shard, r Response) {
	switch r.Outcome {
	case OK:
		c.mend.stored.Revision = r.Revision
		if lost := c.mend.value.GetLost(); lost != nil {
			s.broken(lostHead(lost))
			return
		}
		c.again(s, c.mend)
	case Conflict: // h was stale, or an earlier copy of this write came first
		s.group.line.close()
		c.begin(s, s.state == Claiming)
	case TooLarge:
		s.broken(refused("head", r))
	default:
	}
}

// again continues the tenure with head h in place of a lost head. An active checkpoint begins
// again.
func (c *claim) again(s *Shard, h head) {
	s.head, s.absent.fresh = h, s.absent.fresh && s.base == Mark{}
	s.checkpoint.abandon(s)
	s.catalog.walk = walk{} // the walk begins again: the store may give revisions a second time
	s.group.line.close()    // the append under way is void behind the claim
	c.full, c.base, c.since = false, c.number, h.stored.Since
	c.append(s)
}

func lostHead(l *wire.DurableLost) error {
	had := Mark{l.GetHadEpoch(), l.GetHadWrite(), store.Position(l.GetHadSince())}
	lost := Mark{l.GetEpoch(), l.GetWrite(), store.Position(l.GetSince())}
	if had == lost {
		return fmt.Errorf("%w: another node has claimed the shard beside node %s (%v), so acknowledged changes may be lost", errRolledBack, l.GetNode(), lost)
	}
	return fmt.Errorf("%w: node %s wrote a head (%v), but the store has an older head (%v), which lacks changes acknowledged since",
		errRolledBack, l.GetNode(), lost, had)
}

var errRolledBack = fmt.Errorf("the store was put back to an earlier state (restore the later state, or stop the nodes that host the type and use shardctl store repair TYPE -shard N: -from restores an export, -drop accepts the loss)")

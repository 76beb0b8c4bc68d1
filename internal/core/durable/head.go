package durable

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

type head struct {
	stored store.Head // in the store's form
	value  *wire.DurableHead
}

func readHead(h store.Head) (head, error) {
	v := &wire.DurableHead{}
	if h.Revision != store.None {
		if err := unseal(h.Value, v); err != nil {
			return head{}, fmt.Errorf("head: %w", err)
		}
	}
	return head{h, v}, nil
}

func (h head) mine(c Config) bool {
	return h.value.GetEpoch() == c.Epoch && h.value.GetIncarnation() == c.Incarnation
}

// beyond reports whether another home has written the head, under this home's epoch or a higher
// one.
func (h head) beyond(c Config) bool {
	return h.value.GetEpoch() > c.Epoch || h.value.GetEpoch() == c.Epoch && !h.mine(c)
}

// lacks returns why the first append of a log contradicts the head, or "" if it does not. The
// append is a, and p is its position. lacks checks two rules. A home writes its head, then appends
// its claim, and then appends other entries. A log that is read from Start was never trimmed.
func (h head) lacks(p store.Position, a *wire.DurableAppend) string {
	since, epoch := h.stored.Since, h.value.GetSinceEpoch()
	switch {
	case since == store.Start && claimOf(a) == nil:
		return fmt.Sprintf("its first append, at position %d, is no claim", p)
	case since == store.Start && a.GetEpoch() < epoch:
		return fmt.Sprintf("its first append, at position %d, is older than the head", p)
	case p == since && epoch != 0 && a.GetEpoch() != epoch:
		return fmt.Sprintf("the append at position %d, where the head needs the log to begin, has another epoch than the head expects", p)
	}
	return ""
}

// needs returns h with a further requirement: the log must reach the append with the given counter,
// by the home that writes h.
func (h head) needs(counter uint64) head {
	h.value.ReachEpoch, h.value.Reach = h.value.GetEpoch(), counter
	h.stored.Value = seal(h.value)
	return h
}

// ends returns why a log ends too early for the head, or "". reached reports whether the log has
// the append that the head requires, or a later one of the same home.
func (h head) ends(reached bool) string {
	if h.value.GetReach() == 0 || reached {
		return ""
	}
	return fmt.Sprintf("the log ends before append %d of epoch %s, which the head needs", h.value.GetReach(), EpochText(h.value.GetReachEpoch()))
}

func (h head) reachedBy(a *wire.DurableAppend) bool {
	return a.GetEpoch() == h.value.GetReachEpoch() && a.GetCounter() >= h.value.GetReach()
}

func (h head) replace(c Config, since store.Position, generation uint64, parts uint32) head {
	v := &wire.DurableHead{
		Format: formatNow, Epoch: c.Epoch, Node: c.Node, Incarnation: c.Incarnation,
		Write: 1, Generation: generation, Parts: parts, SinceEpoch: h.value.GetSinceEpoch(),
	}
	if since != h.stored.Since || h.stored.Revision == store.None {
		v.SinceEpoch = c.Epoch // since is of this tenure, or the log begins with it
	} else {
		v.ReachEpoch, v.Reach = h.value.GetReachEpoch(), h.value.GetReach()
	}
	if h.mine(c) {
		v.Write = h.value.GetWrite() + 1
	}
	return head{store.Head{Revision: h.stored.Revision, Since: since, Value: seal(v)}, v}
}

// headWrite replaces the shard's head in the store. If the outcome of a write is uncertain,
// headWrite repeats the write until it reads back its own head or the head of another home.
type headWrite struct {
	line line
	want head           // to be written
	over store.Revision // revision of the head that want replaces: the latest of those passed to replace
	base Mark           // of the head with revision over
	due  bool
}

// begin writes the first of the given heads in place of the second.
func (w *headWrite) begin(d *desk, want, over head) {
	w.due = true
	w.replace(want, over)
	w.line.ask(d, Request{Op: OpSetHead, Head: w.want.stored})
}

// replace sets want, the head to be written, and over, the head that want replaces. After a stale
// read, replace is called again with an older head to replace, so the one with the latest revision
// counts.
func (w *headWrite) replace(want, over head) {
	if w.want = want; over.stored.Revision >= w.over {
		w.over, w.base = over.stored.Revision, over.mark()
	}
}

// done returns the written head once it is certainly in the store. other is a head that the shard
// must refuse instead: see [Shard.refuses]. Both are nil while the write is repeated.
func (w *headWrite) done(d *desk, s *Shard, r Response) (written, other *head, err error) {
	c := s.config
	switch {
	case w.line.request.Op == OpSetHead && r.Outcome == OK:
		w.want.stored.Revision = r.Revision
		return w.finish(), nil, nil
	case w.line.request.Op == OpSetHead && r.Outcome == Conflict:
		w.line.ask(d, Request{Op: OpHead})
		return nil, nil, nil
	case r.Outcome != OK:
		w.line.again(d)
		return nil, nil, nil
	}
	h, err := readHead(r.Head)
	switch {
	case err != nil:
		return nil, nil, err
	case h.beyond(c), h.value.GetLost() != nil, s.Mark().above(h):
		return nil, &h, nil
	case h.mine(c) && h.value.GetWrite() == w.want.value.GetWrite():
		w.want = h
		return w.finish(), nil, nil
	}
	// The read was stale, or a checkpoint came before this claim, or the store was restored to an
	// older state: the write then replaces the head that was read now, unless that is this home's
	// own.
	if h.stored.Revision != w.want.stored.Revision && !h.mine(c) {
		w.replace(h.replace(c, h.stored.Since, h.value.GetGeneration(), h.value.GetParts()), h)
	}
	w.line.later(d, Request{Op: OpSetHead, Head: w.want.stored})
	return nil, nil, nil
}

func (w *headWrite) finish() *head {
	h := w.want
	w.due = false
	w.line.close()
	return &h
}

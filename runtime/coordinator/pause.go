package coordinator

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A balanceRequest is a [Balance] under way or done.
type balanceRequest struct {
	from transport.Address
	id   uint64
	want Wanted
	seq  placement.Epoch // of a pause, or of its end
	done *Balanced       // nil while it is under way
}

// Pause returns the pause of rebalancing as the coordinator knows it.
func (c *Coordinator) Pause() Pause { return c.pause }

// onBalance changes the pause at once, and answers when all registered members keep the change. A
// request to rebalance is answered by looked, in the same step.
func (c *Coordinator) onBalance(from transport.Address, b Balance) {
	for _, r := range c.pauseRequests {
		if r.from == from && r.id == b.ID {
			if r.done != nil {
				c.send(from, *r.done)
			}
			return
		}
	}
	if !c.recovered {
		return // it asks again
	}
	r := &balanceRequest{from: from, id: b.ID, want: b.Want, seq: c.pause.Seq}
	switch {
	case b.Want == WantNow && c.pause.On:
		c.send(from, Balanced{c.config.Term, b.ID, c.pause.String() + " (resume it first)", ""})
		return
	case b.Want == WantNow:
		c.wake()
		c.event(Event{What: RebalanceAsked, Reason: "by " + b.By})
	case c.pause.On != (b.Want == WantPause):
		c.pause = Pause{c.pause.Seq.Next(c.config.Term.Number), b.Want == WantPause, b.By, c.now}
		r.seq, c.plan = c.pause.Seq, true
		what := RebalanceResumed
		if c.pause.On {
			what = RebalancePaused
		}
		c.event(Event{What: what, Reason: "by " + b.By})
	}
	c.pauseRequests = append(c.pauseRequests, r)
	c.pauseRequests = c.pauseRequests[max(0, len(c.pauseRequests)-maxAnswered):]
	c.spreadPause()
}

// wake lets shards move again whose last move was given up, and plans anew.
func (c *Coordinator) wake() {
	c.plan = true
	for _, name := range c.names {
		for i := range c.kinds[name].shards {
			c.kinds[name].shards[i].rest = time.Time{}
		}
	}
}

// looked answers requests to rebalance, once it was decided which shards move. refused is the
// reason for which none does, or "".
func (c *Coordinator) looked(begun, underWay int, refused string) {
	for _, r := range c.pauseRequests {
		if r.done != nil || r.want != WantNow {
			continue
		}
		text := fmt.Sprintf("moves for balance: %d begin, %d are under way", begun, underWay)
		switch {
		case refused != "":
			text = ""
		case underWay == 0:
			text = "no shard needs to move"
		}
		c.finish(r, Balanced{Term: c.config.Term, ID: r.id, Refusal: refused, Text: text})
	}
}

// finish answers a request, and remembers the answer.
func (c *Coordinator) finish(r *balanceRequest, with Balanced) {
	r.done = &with
	c.send(r.from, with)
}

// keepPause takes the pause that a member kept. The latest change counts. One of a later term is of
// another cluster, and could not be changed in this one.
func (c *Coordinator) keepPause(m *member, p Pause) {
	m.pauseKept = p.Seq
	if p.Seq > c.pause.Seq && p.Seq.Term() <= c.config.Term.Number {
		c.pause, c.plan = p, true
	}
}

func (c *Coordinator) onPauseKept(from transport.Address, p PauseKept) {
	m := c.members[from]
	m.pauseKept = max(m.pauseKept, p.Seq)
	c.answerPaused()
}

// spreadPause sends the pause to every member that does not keep it, every resend interval. Members
// that host nothing keep it too, to show it.
func (c *Coordinator) spreadPause() {
	c.pauseAt = time.Time{}
	for _, a := range c.order {
		if m := c.members[a]; m.alive() && m.pauseKept < c.pause.Seq {
			c.send(a, Paused{c.config.Term, c.pause})
			c.pauseAt = c.now.Add(c.config.ResendInterval)
		}
	}
	c.answerPaused()
}

// answerPaused answers requests whose change every registered member keeps. The next coordinator
// waits for these, so it learns of the pause before it decides anything.
func (c *Coordinator) answerPaused() {
	for _, r := range c.pauseRequests {
		if r.done != nil || r.want == WantNow {
			continue
		}
		kept := true
		for _, a := range c.order {
			if m := c.members[a]; m.alive() && m.register != nil && m.pauseKept < r.seq {
				kept = false
			}
		}
		if kept {
			c.finish(r, Balanced{Term: c.config.Term, ID: r.id, Text: c.pause.String()})
		}
	}
}

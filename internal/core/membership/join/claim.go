package join

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// claim is a joiner's attempt to form the cluster. Of several joiners that claim at the same
// time, one forms it:
//
//  1. The broker directs probes to the claimant, so later joiners find the cluster occupied and
//     claim nothing.
//  2. The claimant broadcasts its claim twice. When the second broadcast returns, the broker
//     has already delivered the first one to all others. So of two claimants at one broker, at least one
//     hears the other in time.
//  3. A claimant that hears a claimant with a lower incarnation withdraws. A claimant that hears
//     one with a higher incarnation waits until the other one withdraws, is gone, or answers as a
//     member.
//  4. If there is a store, its founding record must name the claimant: see [Foundings].
//
// The outcome does not depend on time, with one exception: a claim lasts at most claimLife, so a
// process that stood still for longer gives its claim up.
type claim struct {
	began  time.Time // zero means there is no claim
	number uint64    // of this claim
	stands bool      // the broker directs probes here
	said   int       // how many broadcasts of the claim went out
	fence  uint32    // the attempt number of the second broadcast
	proved bool      // a broadcast from fence on has returned
}

func (c *claim) on() bool { return !c.began.IsZero() }

const (
	// claimLife is how long a claim may last. After that its joiner withdraws it.
	claimLife = 3 * time.Second
	// rivalLife is how long another joiner's claim counts after its last hello. It exceeds
	// claimLife, so the other joiner has given its claim up by then.
	rivalLife = 2 * claimLife
)

func (j *Joiner) beginClaim() {
	j.Progress.claims++
	j.Progress.claim = claim{began: j.Now, number: j.Progress.claims}
	j.Out.Claim = j.Progress.claims
	j.Foundings.Begin()
}

func (j *Joiner) withdraw() (had bool) {
	if had = j.Progress.claim.on(); had {
		j.Progress.claim = claim{}
		j.Out.Unclaim = true
	}
	return had
}

// OnClaimed records that the broker now directs probes to this node.
func (j *Joiner) OnClaimed(in core.Claimed) {
	if c := &j.Progress.claim; c.on() && in.Number == c.number && !c.stands {
		c.stands = true
		j.sayHello()
		if j.Conn.Alone {
			j.sayHello()
		} // else the second broadcast leaves later, when the first has reached the other brokers
	}
}

func (c *claim) noteSaid(attempt uint32) {
	if c.said++; c.said == 2 {
		c.fence = attempt
	}
}

func (c *claim) noteReturned(attempt uint32) {
	c.proved = c.proved || c.said >= 2 && attempt >= c.fence
}

func (j *Joiner) runClaim() (formed bool) {
	c := &j.Progress.claim
	until := c.began.Add(claimLife)
	if !j.Conn.Connected || !j.Now.Before(until) {
		j.withdraw()
		j.search(0)
		return false
	}
	j.WakeAt(until)
	if !c.proved || j.rivalled() {
		return false
	}
	found, lost := j.Foundings.Found()
	switch {
	case found:
		j.form()
	case lost:
		j.withdraw()
		j.search(0)
	}
	return found
}

func (j *Joiner) noteClaim(from transport.Address, claims bool) {
	i, known := slices.BinarySearchFunc(j.Progress.rivals, from, func(c candidate, a transport.Address) int { return c.Compare(a) })
	switch until := j.Now.Add(rivalLife); {
	case known && claims:
		j.Progress.rivals[i].until = until
	case known:
		j.Progress.rivals = slices.Delete(j.Progress.rivals, i, i+1)
	case claims && len(j.Progress.rivals) < maxCandidates:
		j.Progress.rivals = slices.Insert(j.Progress.rivals, i, candidate{from, until})
	}
	switch {
	case !claims:
	case !j.Progress.claim.on():
		j.Progress.Vacant = false // the other node may form the cluster, and be gone after some have joined it
	case gossip.FounderBefore(from, j.Config.Self):
		j.withdraw()
		j.search(0) // the hello that follows says so
	}
}

func (j *Joiner) rivalled() bool {
	j.Progress.rivals = slices.DeleteFunc(j.Progress.rivals, func(c candidate) bool { return !c.until.After(j.Now) })
	for _, c := range j.Progress.rivals {
		j.WakeAt(c.until)
	}
	return len(j.Progress.rivals) > 0
}

// pokeRivals sends a hello to each rival, to learn what became of it. A rival that has formed the
// cluster answers. If a rival is gone, the broker reports that.
func (j *Joiner) pokeRivals(hello message.Hello) {
	for _, c := range j.Progress.rivals {
		j.Send(c.Address, hello)
	}
}

// OnGone handles the broker's report that a node has no subscription. The node is another joiner,
// or the member that this node has asked. About a joiner, only a report of the present broker
// instance counts.
func (j *Joiner) OnGone(node transport.Address, present bool) {
	if j.Phase == core.Asking {
		j.askedIsGone(node)
	}
	if !present {
		return
	}
	is := func(c candidate) bool { return c.Address == node }
	if slices.ContainsFunc(j.Progress.rivals, is) && j.withdraw() {
		j.search(0) // the node may have formed the cluster, and others have joined it
	}
	j.Progress.rivals = slices.DeleteFunc(j.Progress.rivals, is)
	j.Progress.candidates = slices.DeleteFunc(j.Progress.candidates, is)
	if is(j.Progress.first) {
		j.Progress.first = candidate{}
	}
}

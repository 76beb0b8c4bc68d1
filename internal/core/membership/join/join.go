package join

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// A Joiner looks for a cluster until this node is a member.
type Joiner struct {
	*core.Node
	Foundings *Foundings
	Progress  joining
}

type joining struct {
	started time.Time
	helloAt time.Time // when the next hello is due
	// notBefore is the end of the pause after a refusal.
	notBefore time.Time
	attempt   uint32
	before    uint32 // the last attempt before this round
	// heardSelf is when a hello of this round first returned through the broker.
	// While it is zero, others may not have received it either, so this node must
	// not form a cluster.
	heardSelf time.Time
	// Vacant means that the broker reported no subscribed Up member in this round.
	Vacant     bool
	offered    time.Time   // when a member last answered: there is a cluster
	candidates []candidate // other joiners that may form the cluster, by address
	rivals     []candidate // other joiners with a claim to form it, by address
	claim      claim       // of this node
	claims     uint64      // counts its claims
	first      candidate   // the candidate that last preceded this node
	asked      transport.Address
	askAt      time.Time // when to send the Join to asked; zero means it was sent
	askedUntil time.Time
	trouble    string // why the last attempt failed
}

type candidate struct {
	transport.Address
	until time.Time // when it stops counting, unless it says hello again
}

const (
	helloInterval = 100 * time.Millisecond
	// A joiner doubles its hello interval for each fewCandidates joiners of lower incarnation, up
	// to longestHello. Thus two thousand starting nodes do not overload each other.
	fewCandidates = 8
	longestHello  = 10 * time.Second
	// candidateLife is how long a joiner counts after its last hello, in its hello intervals.
	candidateLife = 5
	// askSpread is the time per known joiner over which Join requests are spread.
	askSpread = 500 * time.Microsecond
	// joinWait is how long a member may take to answer a Join.
	joinWait = 500 * time.Millisecond
	// refusedWait is the time before a refused joiner asks again.
	refusedWait = 200 * time.Millisecond
	// offerLife is how long after a member's answer a joiner forms no cluster: perhaps only the
	// message of the admission was lost.
	offerLife = 3 * time.Second
	// occupiedWait is how much longer a joiner waits if the broker reports a listener on the
	// members' subject. That listener may be a monitoring tool that subscribes to every subject.
	occupiedWait  = 6 * time.Second
	maxCandidates = 4096
)

func (j *Joiner) OnStart() {
	if j.Phase != core.Idle {
		return
	}
	j.Phase = core.Searching
	j.Progress.started = j.Now
}

func (j *Joiner) search(after time.Duration) {
	j.Phase = core.Searching
	j.Progress.notBefore = j.Now.Add(after)
	j.Progress.helloAt = j.Progress.notBefore
	j.Progress.heardSelf, j.Progress.before = time.Time{}, j.Progress.attempt
	j.Progress.Vacant = false
}

// ForgetJoining drops the progress of joining, once the node is a member.
func (j *Joiner) ForgetJoining() { j.Progress = joining{} }

// HelloAgain makes the next hello due at once, after the connection to the broker was replaced. It
// also withdraws a claim. Hellos sent over the old connection may be lost, so only the return of a
// later hello shows that other nodes receive this node's hellos.
func (j *Joiner) HelloAgain() {
	if j.withdraw() {
		j.search(0)
	}
	j.Progress.helloAt, j.Progress.heardSelf, j.Progress.before = j.Now, time.Time{}, j.Progress.attempt
}

func (j *Joiner) askedIsGone(node transport.Address) {
	if node == j.Progress.asked {
		j.Progress.trouble = node.String() + " offered to admit this node and then was gone (start it again, or raise Config.Membership.JoinTimeout)"
		j.search(0)
	}
}

// RunJoining sends hellos and the Join message, gives up on a member that does not answer, forms
// the cluster if this node should, and ends the machine at JoinTimeout.
func (j *Joiner) RunJoining() {
	timeout := j.Progress.started.Add(j.Config.JoinTimeout)
	if !j.Now.Before(timeout) {
		j.Emit(core.JoinFailed{Err: j.joinError()})
		j.End()
		return
	}
	j.WakeAt(timeout)
	if j.Phase == core.Asking {
		if !j.Progress.askAt.IsZero() && !j.Now.Before(j.Progress.askAt) {
			j.Progress.askAt = time.Time{}
			j.Send(j.Progress.asked, message.Join{
				Target: message.TargetOf(j.Progress.asked), Roles: j.Config.Roles, Meta: j.Config.Meta, Compat: j.Config.Compat,
			})
		}
		if j.Now.Before(j.Progress.askedUntil) {
			if !j.Progress.askAt.IsZero() {
				j.WakeAt(j.Progress.askAt)
			}
			j.WakeAt(j.Progress.askedUntil)
			return
		}
		j.Progress.trouble = j.Progress.asked.String() + " offered to admit this node and then did not answer (is it overloaded, or is the network partitioned?)"
		j.search(0)
	}
	switch {
	case j.Progress.claim.on():
		if j.runClaim() {
			return
		}
	case !j.mayForm():
	case !j.Config.ProbeVacancy:
		j.form()
		return
	case j.Foundings.Free(j.Progress.Vacant):
		j.beginClaim()
	}
	if j.Now.Before(j.Progress.helloAt) {
		j.WakeAt(j.Progress.helloAt)
		return
	}
	if j.Due(&j.Progress.helloAt, j.helloInterval()) && j.Conn.Connected {
		j.sayHello()
		j.Out.Probe = j.Config.ProbeVacancy && j.forms() && !j.Progress.Vacant && !j.Progress.claim.on()
	}
}

func (j *Joiner) sayHello() {
	j.Progress.attempt++
	hello := message.Hello{
		Attempt: j.Progress.attempt, Seeds: j.Config.Seeds, Interval: j.helloInterval(), Claim: j.Progress.claim.stands,
	}
	if hello.Claim {
		j.Progress.claim.noteSaid(hello.Attempt)
	}
	j.Broadcast(hello)
	j.pokeRivals(hello)
}

func (j *Joiner) forms() bool {
	return len(j.Config.Seeds) == 0 || j.Config.Seeds[0] == j.Config.Self.Name
}

func (j *Joiner) helloInterval() time.Duration {
	before := 0
	for _, c := range j.Progress.candidates {
		if c.until.After(j.Now) && gossip.FounderBefore(c.Address, j.Config.Self) {
			before++
		}
	}
	return min(helloInterval<<min(before/fewCandidates, 10), longestHello)
}

func (j *Joiner) joinError() error {
	if j.Progress.trouble == "" {
		j.Progress.trouble = j.Foundings.trouble
	}
	if j.Progress.trouble != "" {
		return fmt.Errorf("join cluster %q: node %v: not admitted within %v: %s", j.Config.Cluster, j.Config.Self, j.Config.JoinTimeout, j.Progress.trouble)
	}
	var cause, remedy string
	switch {
	case !j.Conn.Connected:
		cause, remedy = "no connection to the broker", "is the broker's address right, and does it run?"
	case j.Progress.heardSelf.IsZero():
		cause, remedy = "own messages do not come back from the broker", "do its permissions allow this cluster's subjects?"
	case len(j.Config.Seeds) > 0:
		cause, remedy = fmt.Sprintf("none of the seeds %v answered, nor any other member", j.Config.Seeds), "does the first of them run?"
	default:
		cause, remedy = "no member answered, and the joiner whose turn it was did not form the cluster", "start it again, or raise Config.Membership.JoinTimeout"
	}
	return fmt.Errorf("join cluster %q: node %v: %s within %v (%s)", j.Config.Cluster, j.Config.Self, cause, j.Config.JoinTimeout, remedy)
}

// mayForm reports whether no member answered in time, and this node is the first seed or, without
// seeds, the joiner with the lowest incarnation.
func (j *Joiner) mayForm() bool {
	if j.Progress.heardSelf.IsZero() || !j.Conn.Connected || !j.forms() {
		return false
	}
	window := j.Config.FormWindow
	if len(j.Config.Seeds) > 0 {
		window = j.Config.SeedTimeout
	}
	if j.Config.ProbeVacancy && !j.Progress.Vacant {
		window += occupiedWait
	}
	at := j.Progress.heardSelf.Add(window)
	if !j.Progress.offered.IsZero() {
		at = core.Later(at, j.Progress.offered.Add(offerLife))
	}
	if j.Now.Before(at) {
		j.WakeAt(at)
		return false
	}
	return !j.rivalled() && (len(j.Config.Seeds) > 0 || !j.precededBy())
}

func (j *Joiner) precededBy() bool {
	if j.Progress.first.until.After(j.Now) {
		j.WakeAt(j.Progress.first.until)
		return true
	}
	j.Progress.candidates = slices.DeleteFunc(j.Progress.candidates, func(c candidate) bool { return !c.until.After(j.Now) })
	for _, c := range j.Progress.candidates {
		if gossip.FounderBefore(c.Address, j.Config.Self) {
			j.Progress.first = c
			return true
		}
	}
	return false
}

// form makes this node the first member of the cluster. If this node knows at most fewCandidates
// joiners, it answers them at once instead of waiting for their next hellos.
func (j *Joiner) form() {
	heard := j.Progress.candidates
	g := &gossip.State{Founder: j.Config.Self}
	j.Gossip = g.ChangedBy(j.Config.Self, func(g *gossip.State) { g.SetMember(j.newSelf()) })
	j.Own = true
	j.Emit(core.Formed{Founder: j.Config.Self})
	j.BecomeMember()
	if len(heard) > fewCandidates {
		return
	}
	for _, c := range heard {
		if c.until.After(j.Now) {
			j.Send(c.Address, message.HelloAck{Target: message.TargetOf(c.Address)})
		}
	}
}

func (j *Joiner) newSelf() gossip.Member {
	return gossip.Member{Address: j.Config.Self, Status: gossip.Joining, Roles: j.Config.Roles, Meta: j.Config.Meta}
}

func (j *Joiner) OnHelloAck(from transport.Address, msg message.HelloAck) {
	if msg.Target == message.TargetOf(j.Config.Self) {
		j.Progress.offered = j.Now
		j.noteClaim(from, false)
	}
	if j.Phase != core.Searching || msg.Target != message.TargetOf(j.Config.Self) || j.Now.Before(j.Progress.notBefore) {
		return
	}
	j.ask(from)
}

func (j *Joiner) ask(from transport.Address) {
	j.withdraw()
	j.Phase = core.Asking
	j.Progress.asked, j.Progress.askAt, j.Progress.askedUntil = from, j.Now, j.Now.Add(joinWait)
	if n := len(j.Progress.candidates); n > fewCandidates {
		spread := time.Duration(n) * askSpread
		j.Progress.askAt = j.Now.Add(time.Duration(j.Random.Int64N(int64(spread))))
		j.Progress.askedUntil = j.Progress.askAt.Add(joinWait + 2*spread)
	}
}

// OnAliveAsJoiner handles an Alive, by which a joiner learns that a cluster exists. A partition may
// have kept the joiner's hellos from that cluster. The joiner withdraws its claim, if it has one,
// and forms no cluster for offerLife. If it knows more than fewCandidates joiners, its hellos are
// rare, so it also asks the sender of the Alive for admission.
func (j *Joiner) OnAliveAsJoiner(from transport.Address) {
	j.Progress.offered = j.Now
	if j.withdraw() {
		j.search(0)
	}
	if len(j.Progress.candidates) > fewCandidates && !j.Now.Before(j.Progress.notBefore) {
		j.ask(from)
	}
}

// OnBroadcastWelcome treats the state that the leader broadcasts as a Welcome.
func (j *Joiner) OnBroadcastWelcome(msg message.Gossip) {
	if msg.Target == 0 && msg.State.CheckUnder(j.Rule()) == nil {
		j.enter(msg.State)
	}
}

// OnWelcome makes this node a member. The Welcome must come from the member that this node asked
// last. It may come late, when this node has already begun to search again.
func (j *Joiner) OnWelcome(from transport.Address, msg message.Welcome) {
	if msg.Target != message.TargetOf(j.Config.Self) {
		j.Refuse(core.RefusedTarget)
		return
	}
	if j.Phase != core.Asking && j.Phase != core.Searching || from != j.Progress.asked {
		return
	}
	if msg.State.CheckUnder(j.Rule()) != nil {
		j.Refuse(core.RefusedMalformed)
		return
	}
	j.enter(msg.State)
}

func (j *Joiner) enter(g *gossip.State) {
	if r, ok := g.Member(j.Config.Self); !ok || r.Status == gossip.Down || r.Quarantined {
		return
	}
	j.withdraw()
	j.Gossip = g.WithSeen(j.Config.Self)
	j.BecomeMember()
}

func (j *Joiner) OnJoinRefused(from transport.Address, msg message.JoinRefused) {
	if j.Phase != core.Asking || msg.Target != message.TargetOf(j.Config.Self) || from != j.Progress.asked {
		return
	}
	if msg.Final {
		j.Emit(core.JoinFailed{Err: fmt.Errorf("join cluster %q: node %v: refused by %v: %s", j.Config.Cluster, j.Config.Self, from, msg.Reason)})
		j.End()
		return
	}
	j.Progress.trouble = msg.Reason
	j.search(refusedWait)
}

// OnHelloAsJoiner records other joiners, and the return of this node's own hello.
func (j *Joiner) OnHelloAsJoiner(from transport.Address, msg message.Hello) {
	if from == j.Config.Self {
		if j.Progress.heardSelf.IsZero() && msg.Attempt > j.Progress.before {
			j.Progress.heardSelf = j.Now
		}
		j.Progress.claim.noteReturned(msg.Attempt)
		return
	}
	j.noteClaim(from, msg.Claim)
	if len(msg.Seeds) > 0 {
		return // it forms nothing, or waits for its seeds
	}
	interval := msg.Interval
	if interval <= 0 || interval > longestHello {
		interval = helloInterval
	}
	until := j.Now.Add(candidateLife * interval)
	if from == j.Progress.first.Address {
		j.Progress.first.until = until
	}
	i, ok := slices.BinarySearchFunc(j.Progress.candidates, from, func(c candidate, a transport.Address) int { return c.Compare(a) })
	switch {
	case ok:
		j.Progress.candidates[i].until = until
	case len(j.Progress.candidates) < maxCandidates:
		j.Progress.candidates = slices.Insert(j.Progress.candidates, i, candidate{from, until})
	}
}

package join

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/downing"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// An Admission is the part of a member that answers, checks and admits joiners.
type Admission struct {
	*core.Node
	Voters    *lease.Voters
	Beats     *detector.Heartbeats
	Execution *downing.Execution
	Size      *Size
	group     admission
}

type admission struct {
	waiting []gossip.Member
	next    time.Time // no admission before that
}

func (a admission) voters(c core.Config) int {
	n := 0
	for _, r := range a.waiting {
		if c.Votes(r) {
			n++
		}
	}
	return n
}

// welcomedAlone is the largest group of joiners that get the state in messages of their own. A
// larger group gets it by the leader's broadcast.
const welcomedAlone = 3

func (a *Admission) admit(joiner gossip.Member) {
	if !slices.ContainsFunc(a.group.waiting, func(r gossip.Member) bool { return r.Address == joiner.Address }) {
		a.group.waiting = append(a.group.waiting, joiner)
	}
	if a.Small() {
		a.admitWaiting()
	}
}

func (a *Admission) RunAdmission() {
	if len(a.group.waiting) == 0 {
		return
	}
	if a.Now.Before(a.group.next) {
		a.WakeAt(a.group.next)
		return
	}
	a.admitWaiting()
}

func (a *Admission) admitWaiting() {
	joiners := a.group.waiting
	a.group = admission{next: a.Now.Add(a.BroadcastInterval())}
	// Two joiners may have the same name, and other members may have admitted some.
	taken := make(map[string]bool)
	joiners = slices.DeleteFunc(joiners, func(r gossip.Member) bool {
		double := taken[r.Name] || len(a.Gossip.Named(r.Name)) > 0 || a.Gossip.Removed(r.Address)
		taken[r.Name] = true
		return double // the joiner asks again, and then gets the reason
	})
	if len(joiners) == 0 {
		return
	}
	a.Change(func(g *gossip.State) {
		for _, r := range joiners {
			g.SetMember(r)
		}
	})
	if len(joiners) > welcomedAlone {
		return
	}
	for _, r := range joiners {
		a.Send(r.Address, message.Welcome{Target: message.TargetOf(r.Address), State: a.Gossip})
	}
}

// OnHello handles the hello of a joiner that looks for members. If all members are leaving, all of
// them answer. Otherwise the joiner would form a second cluster while the leaving members still run
// their shards.
func (a *Admission) OnHello(from transport.Address, msg message.Hello) {
	if a.Phase != core.Joined || from == a.Config.Self || a.Self().Status == gossip.Down {
		return
	}
	if a.headless() {
		return // or joiners would keep a cluster alive that has died
	}
	if !a.anyStays() || a.stays(a.Local().Self) && (msg.Claim || a.answersFirst(from, msg.Seeds, msg.Attempt)) {
		a.Send(from, message.HelloAck{Target: message.TargetOf(from)})
	}
}

func (a *Admission) stays(i int) bool {
	return a.Gossip.Members[i].Status <= gossip.Up && a.Local().Evidence[i] == gossip.NoEvidence
}

func (a *Admission) anyStays() bool {
	for i := range a.Gossip.Members {
		if a.stays(i) {
			return true
		}
	}
	return false
}

// headless reports whether the cluster once had full members and this node now reaches none of
// them. It is false if this node was a full member itself.
func (a *Admission) headless() bool {
	if a.Gossip.UpCounter == 0 || a.Self().UpNumber != 0 {
		return false
	}
	f := a.Local()
	for i := range a.Gossip.Members {
		if f.Full.Has(i) && f.Evidence[i] == gossip.NoEvidence {
			return false
		}
	}
	return true
}

// answersFirst reports whether this node must answer the given attempt of a joiner. With seeds,
// only the seeds answer the first attempts. Without seeds, the first attempts are answered by the
// first fewAnswer staying members after the joiner on the ring. In a large cluster, the leader does
// so instead of these members, so that one version of the state admits many joiners. More members
// answer later attempts.
func (a *Admission) answersFirst(joiner transport.Address, seeds []string, attempt uint32) bool {
	patient := attempt >= patientAttempt
	switch {
	case len(seeds) > 0 && slices.Contains(seeds, a.Config.Self.Name):
		return true
	case a.Small() && (patient || len(seeds) == 0 && len(a.Gossip.Members) <= fewAnswer):
		return true
	case len(seeds) > 0 && !patient:
		return false
	case !a.Small() && a.Leads(), attempt >= allAnswerAttempt:
		return true
	case !a.Small() && !patient:
		return false
	}
	few, mine := 0, false
	a.Local().Ring.After(gossip.RingPlace(joiner), func(i int) bool {
		if a.stays(i) {
			few++
			mine = i == a.Local().Self
		}
		return few < fewAnswer && !mine
	})
	return mine
}

// OnJoin admits a node, or refuses it and gives the reason.
func (a *Admission) OnJoin(from transport.Address, msg message.Join) {
	if msg.Target != message.TargetOf(a.Config.Self) {
		a.Refuse(core.RefusedTarget)
		return
	}
	if _, ok := a.Gossip.Member(from); ok {
		a.Send(from, message.Welcome{Target: message.TargetOf(from), State: a.Gossip}) // the first Welcome was lost
		return
	}
	if reason := a.incompatible(from, msg); reason != "" {
		a.Send(from, message.JoinRefused{Target: message.TargetOf(from), Final: true, Reason: reason})
		return
	}
	if status := a.Self().Status; status == gossip.Exiting {
		a.Send(from, message.JoinRefused{Target: message.TargetOf(from), Reason: a.Config.Self.String() + " is leaving"})
		return
	}
	if old, ok := a.sameName(from); ok {
		a.replace(old)
		a.Send(from, message.JoinRefused{Target: message.TargetOf(from), Reason: fmt.Sprintf(
			"the name is held by %v, which is %v (stop that one, or give this one another name)", old.Address, old.Status)})
		return
	}
	joiner := gossip.Member{Address: from, Status: gossip.Joining, Roles: msg.Roles, Meta: msg.Meta}
	if a.Config.Votes(joiner) && a.Voters.Room() <= a.group.voters(a.Config) {
		a.Send(from, message.JoinRefused{Target: message.TargetOf(from), Reason: fmt.Sprintf(
			"there are as many members as a static quorum of %d allows (raise it at all members, or let one leave)", a.Config.QuorumSize)})
		return
	}
	if reason := a.Size.tooLarge(append(slices.Clone(a.group.waiting), joiner)); reason != "" {
		a.Emit(core.JoinerTooLarge{Joiner: from, Reason: reason})
		a.Send(from, message.JoinRefused{Target: message.TargetOf(from), Reason: reason})
		return
	}
	a.admit(joiner)
}

// incompatible returns why a joiner is refused, or "". It compares msg.Compat with this member's,
// and msg.Meta with those of all members and waiting joiners.
func (a *Admission) incompatible(from transport.Address, msg message.Join) string {
	if transport.CheckName("node", from.Name) != nil || !gossip.KeysAscend(msg.Meta) || !gossip.KeysAscend(msg.Compat) ||
		!slices.IsSorted(msg.Roles) || len(msg.Roles) > gossip.MaxRoles || len(msg.Meta) > gossip.MaxKeyValues || len(msg.Compat) > gossip.MaxKeyValues {
		return "its description is malformed"
	}
	if n := gossip.DescriptionSize(msg.Roles, msg.Meta, msg.Compat); n > gossip.MaxDescription {
		return fmt.Sprintf("its description has %d bytes: want at most %d", n, gossip.MaxDescription)
	}
	if why := gossip.Incompatible(from.Name, msg.Compat, a.Config.Self.Name, a.Config.Compat); why != "" {
		return why
	}
	return a.Mismatch(gossip.Member{Address: from, Meta: msg.Meta}, a.Gossip.Members, a.group.waiting)
}

func (a *Admission) sameName(joiner transport.Address) (gossip.Member, bool) {
	for _, r := range a.Gossip.Named(joiner.Name) {
		if r.Address != joiner {
			return r, true
		}
	}
	return gossip.Member{}, false
}

// replace removes the old incarnation of a restarted node if it is known to be gone. Otherwise
// replace probes the old incarnation, and the joiner asks again later.
func (a *Admission) replace(old gossip.Member) {
	if old.Address == a.Config.Self || old.Status == gossip.Down || old.Status == gossip.Exiting {
		return // it is alive, or the leader is about to remove it
	}
	if a.EvidenceAgainst(old.Address) == gossip.EvidenceGone {
		a.Execution.DownMembers([]gossip.Member{old}, downing.Sentence{})
		return
	}
	a.Beats.Suspect(old.Address)
}

// patientAttempt is the number of a joiner's hello from which on more members answer. So if all
// seeds are restarted, the cluster admits them again. Otherwise the seeds would form a second
// cluster.
const patientAttempt = 4

// allAnswerAttempt is the number of the hello from which all members of a large cluster answer.
const allAnswerAttempt = 16

// fewAnswer is the number of members that answer a joiner's first hellos.
const fewAnswer = 5

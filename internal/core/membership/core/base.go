package core

import (
	"math/rand/v2"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// A Base has the data that all parts of a membership machine share, whether it works by gossip or
// by a table: settings, the time of the step, the connection, the view, and the output of the step.
type Base struct {
	Config Config
	Random *rand.Rand
	Now    time.Time
	Out    Output
	Phase  phase
	Conn   ConnState
	Mark   message.ServerMark // of Conn.Server
	Shown  *View
}

// NewBase returns the base of a machine that has not started.
func NewBase(config Config) Base {
	return Base{
		Config: config,
		Random: rand.New(rand.NewPCG(config.Seed, config.Self.Incarnation)),
		Shown:  &View{Self: config.Self},
	}
}

// Show replaces the shown view by the view next, and emits the events that lead from the old view
// to the new one. ended returns the last status of a member that the new view lacks: Exiting, Down,
// or NoStatus if unknown.
func (n *Base) Show(next *View, ended func(transport.Address) gossip.Status) {
	old := n.Shown
	n.Shown, n.Out.Changed = next, true
	n.emitMembers(old.ByAddress, next.ByAddress, ended)
	if old.Leader != next.Leader {
		n.Emit(LeaderChanged{next.Leader})
	}
	if old.Converged != next.Converged {
		n.Emit(ConvergedChanged{next.Converged, next.Why})
	}
}

func (n *Base) emitMembers(old, next []gossip.MemberView, ended func(transport.Address) gossip.Status) {
	if len(old) == len(next) && (len(next) == 0 || &old[0] == &next[0]) {
		return // no member has changed
	}
	var removed []gossip.MemberView
	unknown := &gossip.MemberView{Reachable: true}
	for i, j := 0, 0; i < len(old) || j < len(next); {
		switch {
		case i < len(old) && j < len(next) && old[i].Address == next[j].Address:
			n.emitMember(&old[i], &next[j], next)
			i++
			j++
		case i == len(old) || j < len(next) && next[j].Compare(old[i].Address) < 0:
			n.emitMember(unknown, &next[j], next)
			j++
		default:
			removed = append(removed, old[i])
			i++
		}
	}
	for _, was := range removed {
		n.emitRemoved(was, ended(was.Address))
	}
}

// emitRemoved emits MemberRemoved, and first MemberDowned if the member was Down and no view showed
// that.
func (n *Base) emitRemoved(was gossip.MemberView, ended gossip.Status) {
	if was.Status != gossip.Down && ended != gossip.NoStatus {
		was.Status = ended
		if ended == gossip.Down {
			n.Emit(MemberDowned{Member: was.Member, Evidence: was.Evidence})
		}
	}
	n.Emit(MemberRemoved{was.Member})
}

func (n *Base) emitMember(was, r *gossip.MemberView, all []gossip.MemberView) {
	status := was.Status
	if status == gossip.NoStatus {
		joined := r.Member
		joined.Status, joined.UpNumber = gossip.Joining, 0
		n.Emit(MemberJoined{joined})
		status = gossip.Joining
	}
	if status != r.Status {
		switch r.Status {
		case gossip.WeaklyUp:
			n.Emit(MemberWeaklyUp{r.Member})
		case gossip.Up:
			n.Emit(MemberUp{r.Member})
		case gossip.Leaving:
			n.Emit(MemberLeaving{r.Member})
		case gossip.Exiting:
			n.Emit(MemberExiting{r.Member})
		case gossip.Down:
			e := MemberDowned{Member: r.Member, Evidence: r.Evidence}
			if r.UpNumber == 0 {
				members := make([]gossip.Member, len(all))
				for i, m := range all {
					members[i] = m.Member
				}
				e.Why = n.Mismatch(r.Member, members)
			}
			n.Emit(e)
		case gossip.NoStatus, gossip.Joining, gossip.Removed:
		}
	}
	if r.Quarantined && !was.Quarantined {
		n.Emit(MemberQuarantined{r.Member})
	}
	switch {
	case r.Reachable && !was.Reachable:
		n.Emit(ReachableMember{r.Member})
	case !r.Reachable && r.Evidence != was.Evidence:
		n.Emit(UnreachableMember{r.Member, r.Evidence})
	}
}

type phase uint8

const (
	Idle      phase = iota // before Start
	Searching              // looks for members
	Asking                 // has asked a member for admission
	Joined                 // is a member
	Ended                  // has left, was downed, or could not join
)

func (n *Base) End() {
	n.Phase = Ended
	v := *n.Shown
	v.SelfStatus = gossip.Removed
	n.Shown, n.Out.Changed = &v, true
}

// Mismatch returns the first difference found by Config.Differ between r and a member in others
// that is not Down; "" if there is none.
func (n *Base) Mismatch(r gossip.Member, others ...[]gossip.Member) string {
	if n.Config.Differ == nil {
		return ""
	}
	for _, list := range others {
		for _, o := range list {
			if o.Address == r.Address || o.Status == gossip.Down {
				continue
			}
			if why := n.Config.Differ(r, o); why != "" {
				return why
			}
		}
	}
	return ""
}

// Send sends a message to a node. It does nothing without a connection, because the broker would
// refuse the message.
func (n *Base) Send(to transport.Address, msg message.Message) {
	if n.Conn.Connected {
		n.Out.Send = append(n.Out.Send, Envelope{To: to, Message: msg})
	}
}

func (n *Base) Broadcast(msg message.Message) {
	if n.Conn.Connected {
		n.Out.Send = append(n.Out.Send, Envelope{Broadcast: true, Message: msg})
	}
}

func (n *Base) Emit(e Event) { n.Out.Events = append(n.Out.Events, e) }

// WakeAt requests a step at t or earlier from the driver.
func (n *Base) WakeAt(t time.Time) {
	if n.Out.WakeAt.IsZero() || t.Before(n.Out.WakeAt) {
		n.Out.WakeAt = t
	}
}

// Due reports whether the timer has expired, and if so restarts it with the interval. It also
// requests a step for the timer's next expiry. A zero timer has expired.
func (n *Base) Due(timer *time.Time, interval time.Duration) bool {
	ran := !n.Now.Before(*timer)
	if ran {
		*timer = n.Now.Add(interval)
	}
	n.WakeAt(*timer)
	return ran
}

// Refuse records why the message of this step is refused.
func (n *Base) Refuse(why Refusal) { n.Out.Refused = why }

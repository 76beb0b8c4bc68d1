package control

import (
	"fmt"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

const seekTime = 100 * time.Millisecond

func (m *Member) operatorMessage(kind transport.Kind, from transport.Peer, body []byte) error {
	id, r, _, err := operator.Decode(body)
	if err != nil {
		return err
	}
	if r == nil {
		m.env.Count(Foreign) // an answer: this process asks nothing
		return nil
	}
	self := m.self.Address
	concerned := r.Node == self || r.Command == operator.Join && r.Node.Name == self.Name
	if kind == transport.Broadcast && r.Command != operator.RollCall && !concerned {
		return nil // meant for another
	}
	may := identity.Operator
	if !r.Command.ForOperators() {
		may = identity.Reader
	}
	if identity.Of(from.Incarnation) != may {
		m.forbid(from, r.Command.String())
		refusal := fmt.Sprintf("%v needs a connection of class %v (open one)", r.Command, may)
		if !r.Command.Known() {
			refusal = unknownCommand(r.Command).Error()
		}
		m.answerOperator(id, from, operator.Answer{Refusal: refusal})
		return nil
	}
	if r.Command == operator.Members && m.singles.Seek() {
		m.env.After(seekTime, func() { m.answerOperator(id, from, operator.Answer{View: m.operatorView()}) })
		return nil
	}
	if r.Command.OfProcess() {
		r.By = from.Name
		if r.Command.ForOperators() {
			m.logCommand(from, r)
		}
		m.env.Operate(r, func(a operator.Answer) { m.answerOperator(id, from, a) })
		return nil
	}
	a := m.obey(from, r)
	m.answerOperator(id, from, a)
	if r.Command == operator.Down && r.Node == self && a.Refusal == "" {
		m.members.step(membership.DownNode{Node: self}) // after the answer, because it ends the process
	}
	return nil
}

func (m *Member) logCommand(from transport.Peer, r *operator.Request) {
	about := []any{"by", from.Name}
	add := func(name string, value any, there bool) {
		if there {
			about = append(about, name, value)
		}
	}
	add("kind", bounded.Text(r.Entity.Kind), r.Entity.Kind != "")
	add("entity", bounded.Text(r.Entity.ID), r.Entity.ID != "")
	add("shard", r.Count, r.Command == operator.MoveShard)
	add("instances", r.Count, r.Command == operator.SizePool)
	add("home", bounded.Text(r.Home), r.Home != "")
	add("reminder", bounded.Text(r.Reminder), r.Reminder != "")
	add("bytes", len(r.Entity.State), r.Command == operator.SetState)
	m.env.Log(Info, "told to "+r.Command.String(), about...)
}

func (m *Member) obey(from transport.Peer, r *operator.Request) operator.Answer {
	var err error
	switch r.Command {
	case operator.Members, operator.RollCall:
	case operator.Moves:
		return operator.Answer{View: m.operatorView(), Moves: m.operatorMoves()}
	case operator.Join:
		m.env.Log(Info, "told to join", "by", from.Name, "seeds", bounded.Text(strings.Join(r.Seeds, ",")))
		err = m.members.join(r.Seeds)
	case operator.Leave:
		if r.Node != m.self.Address {
			err = fmt.Errorf("the command is for another node; this node is %v", m.self.Address)
			break
		}
		m.env.Log(Info, "told to leave", "by", from.Name)
		m.env.LeaveByOrder()
	case operator.Down:
		if err = m.members.refuseDown(r.Node, r.Force); err != nil {
			break
		}
		m.env.Log(Warn, "told to down a member", "by", from.Name, "member", r.Node.String(), "force", r.Force)
		if r.Node != m.self.Address { // message downs this process, after the answer
			m.members.step(membership.DownNode{Node: r.Node})
		}
	default:
		err = unknownCommand(r.Command)
	}
	a := operator.Answer{View: m.operatorView()}
	if err != nil {
		a.Refusal = err.Error()
	}
	return a
}

func unknownCommand(c operator.Command) error {
	return fmt.Errorf("%v is unknown to this version (upgrade this node)", c)
}

// Down downs a member for the user of this process. member is its name or address.
func (m *Member) Down(member string, force bool) error {
	found, err := m.operatorView().Find(member)
	if err != nil {
		return err
	}
	if err := m.members.refuseDown(found.Address, force); err != nil {
		return err
	}
	m.env.Log(Warn, "member downed by this process", "member", found.Address.String(), "force", force)
	m.members.step(membership.DownNode{Node: found.Address})
	return nil
}

func (m *Member) operatorView() operator.View {
	v := m.members.machine.View()
	view := MembersOf(v)
	view.Self, view.Waits = m.self.Address, !m.members.joining
	view.Singletons = m.singles.Rows(v)
	view.Coordinator = m.follower.coordinator()
	if p := m.follower.pause(); p.On {
		view.Pause = operator.Pause{By: p.By, At: p.At}
	}
	return view
}

// MembersOf returns the members in a view, in the form that operators see.
func MembersOf(v *membership.View) operator.View {
	view := operator.View{
		Self: v.Self, Status: v.SelfStatus, Founder: v.Founder, Leader: v.Leader, Converged: v.Converged, Why: v.Why,
	}
	if v.Table != nil {
		view.Table, view.Health = v.Table.Version, v.Health
	}
	for _, o := range v.ByAge {
		row := operator.Member{
			Address: o.Address, Status: o.Status, Age: o.UpNumber, Reachable: o.Reachable,
			Roles: append([]string(nil), o.Roles...), Hosts: hostmeta.Kinds(o.Member),
		}
		if !o.Reachable {
			row.Evidence = o.Evidence.String()
		}
		if r := v.Table.Row(o.Address); r != nil {
			row.Alive = r.Alive
			for _, s := range r.Suspicions {
				row.Suspicions = append(row.Suspicions, operator.Suspicion{By: s.By.Name, At: s.At})
			}
		}
		view.Members = append(view.Members, row)
	}
	return view
}

func (m *Member) operatorMoves() (all []operator.Move) {
	if m.seat.core == nil {
		return nil
	}
	now := m.env.Now()
	for _, o := range m.seat.core.Moves() {
		all = append(all, operator.Move{
			Kind: o.Shard.Kind, Shard: o.Shard.Shard, From: o.From, To: o.To, Epoch: o.Epoch.String(), Why: o.Why, Phase: o.Phase, For: now.Sub(o.Began),
		})
	}
	return all
}

func (m *Member) answerOperator(id uint64, to transport.Peer, a operator.Answer) {
	b, err := operator.Encode(id, nil, &a)
	if limit := m.limit(); err == nil && len(b) > limit {
		content := fmt.Sprintf("the list of %d members", len(a.View.Members))
		if len(a.Entities) > 0 {
			content = fmt.Sprintf("what is known of %d entities", len(a.Entities))
		} else if len(a.Types) > 0 {
			content = fmt.Sprintf("the list of the shards of %d types", len(a.Types))
		} else if len(a.Moves) > 0 {
			content = fmt.Sprintf("the list of %d moves", len(a.Moves))
		}
		b, err = operator.Encode(id, nil, &operator.Answer{Refusal: fmt.Sprintf(
			"%s has %d bytes, but the broker accepts at most %d (raise the broker's max_payload)", content, len(b), limit)})
	}
	m.send(to, wire.ControlTopic_CONTROL_TOPIC_ADMIN, b, err)
}

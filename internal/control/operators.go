package control

import (
	"fmt"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/internal/hostmeta"
	"github.com/shardgen/shardgen/internal/identity"
	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// operators carries out the requests of operators; see package operator.
type operators struct{ m *Member }

// seekTime is how long an operator waits for the answer to where singletons run, if this
// member did not know: far more than the question takes.
const seekTime = 100 * time.Millisecond

// message handles a message of an operator.
func (o *operators) message(kind transport.Kind, from transport.Peer, body []byte) error {
	id, r, _, err := operator.Decode(body)
	if err != nil {
		return err
	}
	if r == nil {
		o.m.env.Count(Foreign) // an answer: this process asks nothing
		return nil
	}
	self := o.m.self.Address
	concerned := r.Node == self || r.Command == operator.Join && r.Node.Name == self.Name
	if kind == transport.Broadcast && r.Command != operator.RollCall && !concerned {
		return nil // meant for another
	}
	may := identity.Operator
	if !r.Command.ForOperators() {
		may = identity.Reader
	}
	if identity.Of(from.Incarnation) != may {
		o.m.forbid(from, r.Command.String())
		refusal := fmt.Sprintf("%v is for a connection of class %v (open one)", r.Command, may)
		if !r.Command.Known() {
			refusal = unknownCommand(r.Command).Error()
		}
		o.answer(id, from, operator.Answer{Refusal: refusal})
		return nil
	}
	if r.Command == operator.Members && o.m.singles.Seek() {
		o.m.env.After(seekTime, func() { o.answer(id, from, operator.Answer{View: o.view()}) })
		return nil
	}
	if r.Command.OfProcess() {
		r.By = from.Name
		if r.Command.ForOperators() {
			o.log(from, r)
		}
		o.m.env.Operate(r, func(a operator.Answer) { o.answer(id, from, a) })
		return nil
	}
	a := o.obey(from, r)
	o.answer(id, from, a)
	if r.Command == operator.Down && r.Node == self && a.Refusal == "" {
		o.m.members.step(membership.DownNode{Node: self}) // behind the answer, for it ends the process
	}
	return nil
}

// log logs a command that the process carries out.
func (o *operators) log(from transport.Peer, r *operator.Request) {
	switch r.Command {
	case operator.Rebalance, operator.PauseRebalancing, operator.ResumeRebalancing:
		o.m.env.Log(Info, "told to "+r.Command.String(), "by", from.Name)
		return
	}
	subject := []any{"by", from.Name, "kind", bounded.Text(r.Entity.Kind), "entity", bounded.Text(r.Entity.ID)}
	if r.Command == operator.Place {
		o.m.env.Log(Info, "told to pin a shard", append(subject, "home", bounded.Text(r.Home))...)
		return
	}
	if r.Command == operator.State {
		o.m.env.Log(Info, "told to show a state", subject...)
		return
	}
	o.m.env.Log(Info, "told to set a state", append(subject, "bytes", len(r.Entity.State))...)
}

// obey carries out a request and returns the answer.
func (o *operators) obey(from transport.Peer, r *operator.Request) operator.Answer {
	var err error
	switch r.Command {
	case operator.Members, operator.RollCall:
	case operator.Moves:
		return operator.Answer{View: o.view(), Moves: o.moves()}
	case operator.Join:
		o.m.env.Log(Info, "told to join", "by", from.Name, "seeds", bounded.Text(strings.Join(r.Seeds, ",")))
		err = o.m.members.join(r.Seeds)
	case operator.Leave:
		if r.Node != o.m.self.Address {
			err = fmt.Errorf("this is %v", o.m.self.Address)
			break
		}
		o.m.env.Log(Info, "told to leave", "by", from.Name)
		o.m.env.LeaveByOrder()
	case operator.Down:
		if err = o.m.members.refuseDown(r.Node, r.Force); err != nil {
			break
		}
		o.m.env.Log(Warn, "told to down a member", "by", from.Name, "member", r.Node.String(), "force", r.Force)
		if r.Node != o.m.self.Address { // message downs this one, behind the answer
			o.m.members.step(membership.DownNode{Node: r.Node})
		}
	default:
		err = unknownCommand(r.Command)
	}
	a := operator.Answer{View: o.view()}
	if err != nil {
		a.Refusal = err.Error()
	}
	return a
}

func unknownCommand(c operator.Command) error {
	return fmt.Errorf("%v is unknown to this version (upgrade this node)", c)
}

// down downs a member by this process's own command.
func (o *operators) down(member string, force bool) error {
	m, err := o.view().Find(member)
	if err != nil {
		return err
	}
	if err := o.m.members.refuseDown(m.Address, force); err != nil {
		return err
	}
	o.m.env.Log(Warn, "member downed by this process", "member", m.Address.String(), "force", force)
	o.m.members.step(membership.DownNode{Node: m.Address})
	return nil
}

// view is the cluster as operators are shown it.
func (o *operators) view() operator.View {
	v := o.m.members.machine.View()
	view := operator.View{
		Self: o.m.self.Address, Status: v.SelfStatus, Waits: !o.m.members.joining, Founder: v.Founder, Leader: v.Leader, Converged: v.Converged, Why: v.Why,
	}
	for _, m := range v.ByAge {
		row := operator.Member{
			Address: m.Address, Status: m.Status, Age: m.UpNumber, Reachable: m.Reachable,
			Roles: append([]string(nil), m.Roles...), Hosts: hostmeta.Kinds(m.Member),
		}
		if !m.Reachable {
			row.Evidence = m.Evidence.String()
		}
		view.Members = append(view.Members, row)
	}
	view.Singletons = o.m.singles.Rows(v)
	view.Coordinator = o.m.follower.coordinator()
	if p := o.m.follower.pause(); p.On {
		view.Pause = operator.Pause{By: p.By, At: p.At}
	}
	return view
}

// moves returns the moves of shards under way, if the coordinator is here.
func (o *operators) moves() (all []operator.Move) {
	if o.m.seat.core == nil {
		return nil
	}
	now := o.m.env.Now()
	for _, m := range o.m.seat.core.Moves() {
		all = append(all, operator.Move{
			Kind: m.Shard.Kind, Shard: m.Shard.Shard, From: m.From, To: m.To, Epoch: m.Epoch.String(), Why: m.Why, Phase: m.Phase, For: now.Sub(m.Began),
		})
	}
	return all
}

// answer sends an answer, or the reason why it cannot be sent.
func (o *operators) answer(id uint64, to transport.Peer, a operator.Answer) {
	b, err := operator.Encode(id, nil, &a)
	if limit := o.m.limit(); err == nil && len(b) > limit {
		content := fmt.Sprintf("the list of %d members", len(a.View.Members))
		if len(a.Entities) > 0 {
			content = fmt.Sprintf("what is known of %d entities", len(a.Entities))
		} else if len(a.Types) > 0 {
			content = fmt.Sprintf("the list of the shards of %d types", len(a.Types))
		} else if len(a.Moves) > 0 {
			content = fmt.Sprintf("the list of %d moves", len(a.Moves))
		}
		b, err = operator.Encode(id, nil, &operator.Answer{Refusal: fmt.Sprintf(
			"%s has %d bytes and the broker takes %d (raise its max_payload)", content, len(b), limit)})
	}
	o.m.send(to, wire.ControlTopic_CONTROL_TOPIC_ADMIN, b, err)
}

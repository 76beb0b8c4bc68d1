package control

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

type members struct {
	m        *Member
	machine  Machine
	view     atomic.Pointer[membership.View]
	wakeAt   time.Time
	joining  bool   // the membership's machine has started
	refusal  string // the last logged reason why a member did not admit this process
	limit    int    // the message limit in bytes that was last passed to the machine
	tooLarge string // the last logged joiner that was refused for its size
	traffic  Traffic
}

func (s *members) start(seeds []string) {
	s.joining = true
	s.m.seeds.begin(seeds, s.m.self.Name, s.m.cfg.SeedTimeout, s.m.env.Now())
	s.step(membership.Start{})
}

func (s *members) join(seeds []string) error {
	if s.joining {
		return nil
	}
	for _, seed := range seeds {
		if err := transport.CheckName("seed", seed); err != nil {
			return err
		}
	}
	names := s.m.cfg.Seeds
	if len(seeds) > 0 {
		names = seeds
		machine, err := s.m.setup.Members(seeds)
		if err != nil {
			return err
		}
		s.machine = machine
		s.m.ConnState(s.m.env.Link().State(transport.Control))
	}
	s.start(names)
	return nil
}

func (s *members) tick(now time.Time) {
	if due(s.wakeAt, now) {
		s.step(membership.Tick{})
	}
}

func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

func (s *members) message(from transport.Peer, body []byte, server string, at time.Time) error {
	msg, err := membership.Decode(body)
	if err != nil {
		return err
	}
	s.traffic.noteReceived(msg)
	s.noteRefusal(from.Address, msg)
	s.step(membership.Receive{From: from.Address, Message: msg, Server: server, Waited: s.m.env.Now().Sub(at)})
	return nil
}

// noteRefusal logs a temporary refusal to admit this process, unless its reason is the one logged
// last. A final refusal ends the process with an error instead.
func (s *members) noteRefusal(from transport.Address, m membership.Message) {
	r, ok := m.(message.JoinRefused)
	if !ok || r.Final || r.Target != uint32(s.m.self.Incarnation) || r.Reason == s.refusal {
		return
	}
	s.refusal = r.Reason
	s.m.env.Log(Warn, "not admitted yet, asking again", "cluster", s.m.cfg.Cluster, "self", s.m.self.Address.String(),
		"by", from.String(), "why", bounded.Text(r.Reason), "until", s.m.cfg.JoinTimeout)
}

// unreachable handles the report that nobody listens at an address. The zero address means that no
// member serves clients.
func (s *members) unreachable(a transport.Address, server string) {
	if a.IsZero() {
		s.step(membership.Vacant{})
		return
	}
	s.step(membership.Unreachable{Peer: a, Server: server})
	s.m.gateway.unreachable(a)
}

func (s *members) suspect(a transport.Address) {
	s.step(membership.Suspected{Peer: a})
	if v := s.view.Load(); v != nil {
		if _, member := v.Member(a); !member {
			s.partWithAbsent()
		}
	}
}

// partWithAbsent closes the sessions with homes that are not members. Such homes were removed
// before this process was admitted, so this process gets no event of their removal.
func (s *members) partWithAbsent() {
	v := s.view.Load()
	if v == nil || v.SelfStatus != membership.Up && v.SelfStatus != membership.Leaving {
		return
	}
	for _, a := range s.m.env.Homes() {
		if _, member := v.Member(a); !member {
			s.m.env.Log(Info, "home parted with: it is no member any more", "member", a.String())
			s.m.env.PeerLeft(a)
		}
	}
}

func (s *members) step(in membership.Input) {
	if limit := s.m.limit(); limit != s.limit { // a reconnect or a reload may change it
		s.limit = limit
		s.step(membership.MessageLimit{Bytes: limit})
	}
	env := s.m.env
	out := s.machine.Step(env.Now(), in)
	s.wakeAt = out.WakeAt
	if out.LeaseChanged {
		env.RenewLease(out.Lease)
	}
	if out.Unclaim {
		env.Serve(false, nil)
	}
	if out.Claim != 0 {
		env.Serve(true, func() { s.step(membership.Claimed{Number: out.Claim}) })
	}
	for _, e := range out.Send {
		s.traffic.noteSent(e.Message)
		body, err := membership.Encode(e.Message)
		s.m.send(transport.Peer{Address: e.To}, wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, body, err)
	}
	if out.Refused != membership.NotRefused {
		env.CountRefused(out.Refused)
	}
	if out.Probe {
		s.m.gateway.probe()
	}
	if out.TakeLease != nil {
		env.TakeLease(*out.TakeLease)
	}
	if out.Founding != nil {
		env.Founding(*out.Founding, func(a membership.FoundingAnswer) { s.step(a) })
	}
	for _, q := range out.Ask {
		if body, err := proto.Marshal(&wire.Gateway{Probe: &wire.GatewayProbe{}}); err == nil { // a probe needs no answer
			env.AskServer(q, s.m.seal(wire.ControlTopic_CONTROL_TOPIC_GATEWAY, body), func(a membership.Asked) { s.step(a) })
		}
	}
	s.askTable(&out)
	if l, ok := env.Link().(transport.Mover); ok && out.Move {
		l.Move()
	}
	if out.Changed || len(out.Events) > 0 {
		env.Publish(s.machine.View(), out.Events)
	}
	if out.Changed {
		s.view.Store(s.machine.View())
		s.m.viewChanged()
	}
	for _, e := range out.Events {
		s.event(e)
	}
}

func (s *members) askTable(out *membership.Output) {
	env := s.m.env
	if out.ReadTable != nil {
		env.ReadTable(*out.ReadTable, func(a membership.TableRows) { s.step(a) })
	}
	if out.WriteTable != nil {
		env.WriteTable(*out.WriteTable, func(a membership.TableWritten) { s.step(a) })
	}
	if out.WriteAlive != nil {
		env.WriteAlive(*out.WriteAlive, func(a membership.TableWritten) { s.step(a) })
	}
}

func (s *members) event(e membership.Event) {
	env, self := s.m.env, s.m.self.Address
	env.Log(Debug, "membership", "event", e.String())
	switch e := e.(type) {
	case membership.MemberUp:
		env.Log(Info, "member up", "member", e.Member.Address.String(), "age", e.Member.UpNumber)
		if e.Member.Address == self {
			s.lostBefore()
			env.Up()
			env.Serve(true, nil)
			s.m.reports.askForHomes()
			env.After(wakeAfter, func() {
				s.m.reports.late = true
				s.m.reports.askForHomes()
			})
		}
	case membership.MemberLeaving:
		if e.Member.Address == self {
			s.m.leaving = true
			env.Leaving()
			env.Serve(false, nil)
		}
	case membership.MemberDowned:
		if e.Why != "" {
			env.Log(Warn, "member downed", "member", e.Member.Address.String(), "why", e.Why)
		} else {
			env.Log(Warn, "member downed", "member", e.Member.Address.String())
		}
		s.traffic.noteDowned(e.Evidence)
		if e.Member.Address != self {
			s.m.lost(e.Member.Address)
		}
	case membership.MemberRemoved:
		s.removed(e.Member)
	case membership.UnreachableMember:
		env.Log(Warn, "member unreachable", "member", e.Member.Address.String(), "evidence", e.Evidence.String())
	case membership.ReachableMember:
		env.Log(Info, "member reachable again", "member", e.Member.Address.String())
	case membership.FoundedElsewhere:
		s.foundedElsewhere(e)
	case membership.OtherTable:
		env.LogSeldom(Error, otherTable, e.Founder.String(), "cluster", s.m.cfg.Cluster, "member", e.Node.String(), "founder", e.Founder.String())
	case membership.JoinerTooLarge:
		if node := e.Joiner.String(); node != s.tooLarge {
			s.tooLarge = node
			env.Log(Warn, "node not admitted", "joiner", node, "why", e.Reason)
		}
	case membership.StateTooLarge:
		env.Log(Error, "the state of the cluster does not fit a message: nobody can join, leave or be removed until the broker's max_payload is raised",
			"bytes", e.Bytes, "limit", e.Limit)
	case membership.JoinFailed:
		env.Fail(e.Err)
	case membership.SelfDowned:
		env.Downed(e.Reason)
	case membership.SelfRemoved:
		env.Left()
	}
}

const otherTable = "another cluster of this name uses another membership table, and the same entity can live in both: stop one of them, and give all members one table"

func (s *members) foundedElsewhere(e membership.FoundedElsewhere) {
	level, text := Warn, "the store already has a cluster of this name: this node founds a new one only if that one is gone"
	if v := s.m.View(); v != nil && v.SelfStatus != membership.NoStatus {
		level, text = Error, "another cluster of this name uses the same store, and takes shards of this one: stop it (use one broker for the whole cluster, or give each its own name and store)"
	}
	s.m.env.Log(level, text, "cluster", s.m.cfg.Cluster, "founder", e.Other.Founder.String(), "member", e.Other.Node.String(),
		"through", e.Other.Server, "this node's broker", e.Server)
}

// lostBefore handles the last maxLost members that were downed before this process became a member,
// as listed in the membership table. This process gets no event about them, but clients may still
// wait for their goodbyes.
func (s *members) lostBefore() {
	t := s.m.View().Table
	if t == nil {
		return
	}
	dead := slices.DeleteFunc(slices.Clone(t.Summary().Ended), func(r *rows.Row) bool { return r.Status != membership.Down })
	slices.SortFunc(dead, func(a, b *rows.Row) int { return a.Ended.Compare(b.Ended) })
	for _, r := range dead[max(0, len(dead)-maxLost):] {
		s.m.lost(r.Address)
	}
}

// removed handles the removal of a member. It logs the removal at Info, or at Debug if both that
// member and this one leave gracefully, as in a shutdown of the cluster.
func (s *members) removed(m membership.Member) {
	level, inOrder := Info, m.Status == membership.Leaving || m.Status == membership.Exiting
	if inOrder && s.m.leaving {
		level = Debug
	}
	s.m.env.Log(level, "member removed", "member", m.Address.String(), "was", m.Status.String())
	switch {
	case m.Address == s.m.self.Address:
	case inOrder:
		s.m.env.PeerLeft(m.Address) // the member may have been Exiting too briefly for this process to see
	default:
		s.m.lost(m.Address)
	}
}

func (s *members) refuseDown(node transport.Address, force bool) error {
	v := s.machine.View()
	m, ok := v.Member(node)
	switch {
	case v.SelfStatus == membership.NoStatus:
		return fmt.Errorf("%s is not a member itself (ask a member)", s.m.self.Name)
	case !ok:
		return fmt.Errorf("%v is not a member (shardctl members lists the members)", node)
	case m.Reachable && m.Status != membership.Down && !force:
		return fmt.Errorf("%v is %v and reachable: its shards would be given to other members while it still runs them (let it leave, or force it if its process has certainly stopped)", node, m.Status)
	}
	return nil
}

// seedPatience times Config.SeedTimeout is how long a seed may take to become a member before its
// name is logged.
const seedPatience = 10

type seeds struct {
	names []string
	after time.Duration
	due   time.Time // when the remaining names are logged; zero means that they were
}

func (s *seeds) begin(names []string, self string, timeout time.Duration, now time.Time) {
	s.names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == self })
	s.after = seedPatience * timeout
	s.due = now.Add(s.after)
}

func (s *seeds) seen(v *membership.View) {
	s.names = slices.DeleteFunc(s.names, func(name string) bool {
		return slices.ContainsFunc(v.ByAddress, func(m membership.MemberView) bool { return m.Name == name })
	})
}

// tick logs once which seeds did not become members. Otherwise a wrong name would go unnoticed,
// because the other seeds admit the process.
func (s *seeds) tick(now time.Time, log func(l Level, text string, args ...any)) {
	if !due(s.due, now) {
		return
	}
	s.due = time.Time{}
	if len(s.names) > 0 {
		log(Warn, "no member has the name of a seed (check the spelling, and that the seed runs)",
			"seeds", strings.Join(s.names, " "), "after", s.after)
	}
}

package region

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/transcript"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestTranscripts runs testdata/*.txt: one shard at node a, see package transcript.
// Epochs are the counters of term 1. The commands:
//
//	handoff MODE...                       a new shard that moves that way
//	place NODE|none EPOCH [force]         the table's entry
//	term NUMBER                           that of the table which showed the entry
//	call SENDER ENTITY EPOCH [via=NODE] [chain=shard|entity] [local]
//	begin ENTITY                          a local call, if the entity is idle
//	end ENTITY                            its turn
//	idle                                  passivate what is idle
//	move NODE EPOCH | stop | passivate ENTITY | states | ready NODE EPOCH
//	stopped EPOCH [active=ENTITY]         the entity is not encoded
//	prepare NODE EPOCH ENTITY... [last] | open NODE EPOCH
//	cancel EPOCH                          the move is off
//	barrier SENDER VIA EPOCH [departed] | direct SENDER EPOCH
//	flush SENDER EPOCH HOP TO             from the sender itself
//	flushed SENDER VIA EPOCH HOP [TO]
//	ways                                  that barriers waited for in vain
//	refuse SENDER VIA ...                 ways that came with Open
//	waiting NODE EPOCH SENDER             a way by this node that comes with Open
//	gone NODE                             forget it, open its barriers
//	return SENDER ENTITY EPOCH [straight] [died]
//	                                      a call that came back; straight: its sender sent it
//	                                      to a; died: the home that it comes from did
//	unsent CALL NODE [departs]            it could not be forwarded to NODE
//	unpassed SENDER VIA EPOCH HOP TO NODE a flush that could not be passed on to NODE
//	dismiss                               the node ends
//	settle                                end forwarding if nobody needs it
//	tick DURATION                         time passes, barriers are looked at
//	expire DURATION | withdraw CALL | find ENTITY CALL
func TestTranscripts(t *testing.T) {
	transcript.Run(t, func(t *testing.T) transcript.Command { return newScript(t).run })
}

// A script is one transcript under way.
type script struct {
	t        *testing.T
	s        *Shard
	now      time.Time
	calls    map[string]*Call
	names    map[*Call]string
	running  map[string]*Entity
	stopping []*Entity
	before   string
}

func newScript(t *testing.T) *script {
	id := placement.ShardID{Kind: "K", Shard: 1}
	return &script{
		t: t, now: time.Unix(1_000_000, 0), calls: map[string]*Call{}, names: map[*Call]string{},
		running: map[string]*Entity{}, s: New(id, node("a"), Limits{Mailbox: 2, Waiting: 3}), before: "closed",
	}
}

func node(name string) transport.Address {
	if name == "none" {
		return transport.Address{}
	}
	return transport.Address{Name: name, Incarnation: 1}
}

func (s *script) epoch(word string) placement.Epoch {
	n, err := strconv.ParseUint(word, 10, 32)
	if err != nil {
		s.t.Fatalf("epoch %q: %v", word, err)
	}
	if n == 0 {
		return 0
	}
	return placement.MakeEpoch(1, uint32(n))
}

func (s *script) run(words []string) string {
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	s.command(words[0], words[1:], say)
	if err := s.s.Check(); err != nil {
		s.t.Fatalf("after %v: %v", words, err)
	}
	if after := s.status(); after != s.before {
		say("%s", after)
		s.before = after
	}
	return out.String()
}

func (s *script) status() string {
	text := s.s.State().String()
	if s.s.State() == Closed && s.s.Epoch() == 0 {
		return text
	}
	text += fmt.Sprintf(" (%s at %d", name(s.s.Home()), s.s.Epoch().Counter())
	if to, epoch, ok := s.s.Underway(); ok {
		text += fmt.Sprintf(", will move to %s at %d", name(to), epoch.Counter())
	}
	for _, d := range s.s.departures {
		text += fmt.Sprintf(", went to %s at %d", name(d.to), d.epoch.Counter())
	}
	return text + ")"
}

func name(a transport.Address) string {
	if a.IsZero() {
		return "none"
	}
	return a.Name
}

func (s *script) command(command string, args []string, say func(string, ...any)) {
	arg := func(i int) string {
		if i >= len(args) {
			s.t.Fatalf("%s: wants more than %v", command, args)
		}
		return args[i]
	}
	switch command {
	case "handoff":
		var how Handoff
		for _, word := range args {
			switch word {
			case "ordered":
			case "serving":
				how.Serving = true
			case "drop-calls":
				how.DropCalls = true
			case "unordered":
				how.Unordered = true
			case "refusing":
				how.Refusing = true
			case "drop-state":
				how = Handoff{DropCalls: true, Unordered: true, Refusing: true, DropState: true}
			default:
				s.t.Fatalf("handoff %s: unknown", word)
			}
		}
		fresh := newScript(s.t)
		fresh.s = New(fresh.s.ID(), node("a"), Limits{Mailbox: 2, Waiting: 3, Handoff: how})
		*s = *fresh
		say("%v", how)
	case "place":
		s.effects(s.s.Place(node(arg(0)), s.epoch(arg(1)), slices.Contains(args, "force"), 0, s.now), say)
	case "term":
		n, err := strconv.ParseUint(arg(0), 10, 32)
		if err != nil {
			s.t.Fatalf("term %q: %v", arg(0), err)
		}
		s.effects(s.s.BeginTerm(uint32(n), 0), say)
	case "call":
		s.call(args, say)
	case "begin":
		if e := s.s.Begin(arg(0), 0); e != nil {
			s.begin(e)
			say("runs")
		} else {
			say("must queue")
		}
	case "end":
		s.end(arg(0), say)
	case "idle":
		for _, e := range s.s.Idle(^uint32(0), 10) {
			s.passivate(e)
			say("%s is passivated", e.ID)
			s.s.End(e, 0)
		}
	case "move":
		s.effects(s.s.BeginMove(node(arg(0)), s.epoch(arg(1))), say)
	case "stop":
		entities, ok := s.s.Stop()
		if ok {
			s.stopping = entities
		}
		say("stops %v: %v", ids(entities), ok)
	case "passivate":
		e := s.stopping[slices.IndexFunc(s.stopping, func(e *Entity) bool { return e.ID == arg(0) })]
		may := s.s.MayPassivate(e)
		say("its hook may run: %v", may)
		if may {
			s.passivate(e)
		}
	case "states":
		for _, e := range s.s.States() {
			say("%s: %s", e.ID, e.State)
		}
	case "stopped":
		for _, e := range s.stopping {
			if !s.s.MayPassivate(e) {
				break
			}
			if !slices.Contains(args, "active="+e.ID) {
				s.passivate(e)
			}
		}
		fx, sent := s.s.Stopped(s.epoch(arg(0)), 0)
		say("send Init: %v", sent)
		s.effects(fx, say)
	case "ready":
		s.effects(s.s.Ready(node(arg(0)), s.epoch(arg(1))), say)
	case "prepare":
		states := map[string][]byte{}
		for _, e := range args[2:] {
			if e != "last" {
				states[e] = []byte("state of " + e)
			}
		}
		ready, refused := s.s.Prepare(node(arg(0)), s.epoch(arg(1)), states, slices.Contains(args, "last"))
		say("ready: %v, refused: %v", ready, refused)
	case "open":
		s.effects(s.s.OpenAt(node(arg(0)), s.epoch(arg(1)), 0, s.now), say)
	case "cancel":
		fx, off := s.s.CancelMove(s.epoch(arg(0)))
		say("off: %v", off)
		s.effects(fx, say)
	default:
		s.gateCommand(command, arg, args, say)
	}
}

func (s *script) gateCommand(command string, arg func(int) string, args []string, say func(string, ...any)) {
	peer := func(i int) transport.Peer { return transport.Peer{Address: node(arg(i))} }
	switch command {
	case "barrier":
		s.effects(s.s.CloseBarrier(node(arg(0)), node(arg(1)), s.epoch(arg(2)), slices.Contains(args, "departed"), 0, s.now), say)
		say("barriers closed: %d", s.s.Barriers())
	case "direct":
		s.effects(s.s.GoDirect(node(arg(0)), s.epoch(arg(1)), 0), say)
	case "flush":
		f := Flush{Sender: peer(0), Via: transport.Peer{Address: node("a")}, Epoch: s.epoch(arg(1)), Hop: s.epoch(arg(2)), To: node(arg(3)), Lost: slices.Contains(args, "lost")}
		s.effects(s.s.Flush(f, 0, s.now), say)
	case "flushed":
		f := Flush{Sender: peer(0), Via: peer(1), Epoch: s.epoch(arg(2)), Hop: s.epoch(arg(3))}
		if len(args) > 4 {
			f.To = node(arg(4))
		}
		s.effects(s.s.Flushed(f, 0, s.now), say)
	case "ways":
		for _, w := range s.s.RefusedDetours() {
			say("refused: %s via %s", name(w.Sender), name(w.Via))
		}
	case "refuse":
		for i := 0; i < len(args); i += 2 {
			s.s.RefuseDetours([]Detour{{node(arg(i)), node(arg(i + 1))}})
		}
	case "waiting":
		s.effects(s.s.RefuseWaiting(node(arg(0)), s.epoch(arg(1)), []Detour{{node(arg(2)), node("a")}}), say)
	case "gone":
		is := func(a transport.Address) bool { return a == node(arg(0)) }
		s.effects(s.s.Depart(is, false, nil, 0, s.now), say)
		s.effects(s.s.OpenBarriers(is, 0, s.now), say)
	case "owes":
		say("a flush is to come: %v", s.s.Owes(s.now))
	case "settle":
		s.s.Settle(s.now)
		say("settled: %v, look again: %v", s.s.Settled(), s.s.Unsettled())
	case "dismiss":
		s.effects(s.s.Dismiss(), say)
	case "return":
		c := s.newCall(arg(0), arg(1), arg(2))
		c.Via, c.Straight = node("a"), slices.Contains(args, "straight")
		nobody := func(transport.Address) bool { return false }
		s.effects(s.s.Depart(nobody, slices.Contains(args, "died"), []Returned{{Call: c}}, 0, s.now), say)
	case "unsent":
		s.effects(s.s.Unsent(s.calls[arg(0)], node(arg(1)), slices.Contains(args, "departs"), 0), say)
	case "unpassed":
		f := Flush{Sender: peer(0), Via: peer(1), Epoch: s.epoch(arg(2)), Hop: s.epoch(arg(3)), To: node(arg(4))}
		s.effects(s.s.Unpassed(f, node(arg(5)), false, 0, s.now), say)
	case "tick":
		d, err := time.ParseDuration(arg(0))
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
		s.effects(s.s.OpenBarriers(func(transport.Address) bool { return false }, 0, s.now), say)
	case "expire":
		d, err := time.ParseDuration(arg(0))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, c := range s.s.Expire(s.now.Add(-d)) {
			say("%s has waited too long", s.names[c])
		}
	case "withdraw":
		say("it waited: %v", s.s.Cancel(s.calls[arg(0)]))
	case "find":
		c, running := s.s.Find(arg(0), func(c *Call) bool { return s.names[c] == arg(1) })
		say("found: %v, its turn: %v", c != nil, running)
	default:
		s.t.Fatalf("unknown command %s %v", command, args)
	}
}

// newCall names calls c1, c2, … in the order in which they come.
func (s *script) newCall(sender, entity, epoch string) *Call {
	c := &Call{Entity: entity, Sender: transport.Peer{Address: node(sender)}, Epoch: s.epoch(epoch)}
	n := fmt.Sprintf("c%d", len(s.calls)+1)
	s.calls[n], s.names[c] = c, n
	return c
}

// links is a chain that holds the shard, and either all entities or none.
type links struct{ entity bool }

func (links) HoldsShard(placement.ShardID) bool            { return true }
func (l links) HoldsEntity(placement.ShardID, string) bool { return l.entity }

func (s *script) call(args []string, say func(string, ...any)) {
	c := s.newCall(args[0], args[1], args[2])
	for _, a := range args[3:] {
		switch k, v, _ := strings.Cut(a, "="); {
		case k == "via":
			c.Via = node(v)
		case k == "chain":
			c.Chain = links{entity: v == "entity"}
		case k == "local":
			c.Local = true
		}
	}
	e, v := s.s.Deliver(c, 0, s.now)
	switch v {
	case Run:
		s.begin(e)
		say("%s: %v", s.names[c], v)
	case Forward:
		to, epoch := s.s.Successor(c)
		say("%s: forward to %s at %d", s.names[c], name(to), epoch.Counter())
	default:
		say("%s: %v", s.names[c], v)
	}
}

func (s *script) begin(e *Entity) {
	if e.Value == nil {
		e.Value = "value"
		e.SetState(nil, codegen.Fresh)
	}
	s.running[e.ID] = e
}

func (s *script) passivate(e *Entity) {
	if e.Value != nil {
		e.Value = nil
		e.SetState([]byte("state of "+e.ID), codegen.Reactivated)
	}
}

func (s *script) end(id string, say func(string, ...any)) {
	e := s.running[id]
	if e == nil {
		say("it has no turn")
		return
	}
	delete(s.running, id)
	next, drained := s.s.End(e, 0)
	if next != nil {
		s.begin(e)
		say("then %s", s.names[next])
	}
	if drained {
		say("drained")
	}
}

func (s *script) effects(fx Effects, say func(string, ...any)) {
	for _, st := range fx.Start {
		s.begin(st.Entity)
		say("start %s", s.names[st.Call])
	}
	for _, c := range fx.Forward {
		to, epoch := s.s.Successor(c)
		say("forward %s to %s at %d", s.names[c], name(to), epoch.Counter())
	}
	for _, f := range fx.Flushed {
		to, hop := s.s.FlushTo(f)
		say("pass the flush of %s via %s at %d on to %s, hop %d",
			name(f.Sender.Address), name(f.Via.Address), f.Epoch.Counter(), name(to), hop.Counter())
	}
	if fx.Open {
		say("send Open to %s at %d", name(s.s.Home()), s.s.Epoch().Counter())
	}
	for _, c := range fx.Refuse {
		say("refuse %s", s.names[c])
	}
	for _, c := range fx.Drop {
		say("drop %s", s.names[c])
	}
	if fx.Offer {
		say("send Init without state")
	}
	if fx.Drained {
		say("drained")
	}
	if fx.Opened {
		say("opened")
	}
}

func ids(entities []*Entity) []string {
	out := []string{}
	for _, e := range entities {
		out = append(out, e.ID)
	}
	return out
}

package shardhost

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/test/transcript"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestTranscripts runs testdata/*.txt: shard K/1 at node a, see package transcript. The output
// lists all calls of the shard to its host, in order. Epochs are the counters of term 1. The
// commands:
//
//	config [drops] [settles] [drop-calls] [serving] [lead=ENTITY]
//	place NODE EPOCH [term=N]             the table's entry
//	call SENDER ENTITY EPOCH [tell] [local] [via=NODE] [left] [chain=ENTITY]
//	accept SENDER ENTITY EPOCH …          a call of this process, which is run or answered
//	begin ENTITY | end ENTITY [kept]
//	cancel SENDER ENTITY CALL | withdraw CALL
//	order move NODE EPOCH [from=EPOCH] | order cancel EPOCH
//	handoff | may ENTITY | stopped [ERROR] the stop hooks have run
//	step SENDER init EPOCH [ENTITY...] [last] [forged]
//	step SENDER ready|open|reject EPOCH
//	step SENDER barrier VIA EPOCH | step SENDER flushed OF VIA EPOCH HOP
//	flush SENDER EPOCH HOP TO             from the sender itself
//	removed NODE                          forget it, open its barriers
//	departed NODE                         nothing comes from it any more
//	lost NODE                             there is no session with it
//	small NODE                            its session takes nothing: too large
//	closed NODE                           its session has ended meanwhile
//	return SENDER ENTITY EPOCH | dismiss | exiting
//	tick DURATION                         time passes, and what was set runs
//	held                                  what is registered
//	needed                                whether a process that leaves waits for it
func TestTranscripts(t *testing.T) {
	transcript.Run(t, func(t *testing.T) transcript.Command { return newScript(t).run })
}

// The shard of the transcripts, and the coordinator's term.
var (
	shardID = placement.ShardID{Kind: "K", Shard: 1}
	term    = placement.Term{Number: 1}
)

func node(name string) transport.Address {
	if name == "none" {
		return transport.Address{}
	}
	return transport.Address{Name: name, Incarnation: 1}
}

func name(a transport.Address) string {
	if a.IsZero() {
		return "none"
	}
	return a.Name
}

// A script runs one transcript, and is the Host of its shard.
type script struct {
	t         *testing.T
	changed   int
	shard     *Shard
	cfg       Config
	now       time.Time
	out       strings.Builder
	before    string
	calls     map[string]*driven
	turns     map[string]*region.Entity
	sessions  map[string]*session
	timers    []timer
	lost      []transport.Address // processes with which there is no session
	departed  []transport.Address
	exiting   bool
	keeps     bool
	stops     []*region.Entity
	stopsDone func(error)
	remember  Carried
}

type timer struct {
	at time.Time
	f  func()
}

// A driven is a call in a transcript.
type driven struct {
	Call
	name string
}

func newScript(t *testing.T) *script {
	s := &script{
		t: t, now: time.Unix(1_000_000, 0), shard: new(Shard),
		cfg:   Config{Kind: []byte("K"), Self: node("a"), CallTimeout: 5 * time.Second, HandoffTimeout: 10 * time.Second, Clock: new(atomic.Uint32)},
		calls: map[string]*driven{}, turns: map[string]*region.Entity{}, sessions: map[string]*session{},
	}
	s.cfg.Keeps = func(*region.Entity) bool { return s.keeps }
	s.begin(region.Handoff{}, "")
	return s
}

func (s *script) begin(how region.Handoff, lead string) {
	s.shard = new(Shard)
	s.shard.Init(shardID, s, &s.cfg, region.Limits{Mailbox: 2, Waiting: 3, Handoff: how, Lead: lead})
	s.before = s.status()
}

func (s *script) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *script) status() string {
	epoch, home := s.shard.Placement()
	return fmt.Sprintf("%v (%s at %s)", s.shard.Core.State(), name(home), counter(epoch))
}

// counter returns an epoch in the form of the transcripts.
func counter(e placement.Epoch) string {
	if e.Term() > 1 {
		return fmt.Sprintf("%d.%d", e.Term(), e.Counter())
	}
	return strconv.FormatUint(uint64(e.Counter()), 10)
}

func (s *script) epoch(word string) placement.Epoch {
	term := uint64(1)
	if before, after, ok := strings.Cut(word, "."); ok {
		term, _ = strconv.ParseUint(before, 10, 32)
		word = after
	}
	n, err := strconv.ParseUint(word, 10, 32)
	if err != nil {
		s.t.Fatalf("epoch %q: %v", word, err)
	}
	if n == 0 {
		return 0
	}
	return placement.MakeEpoch(uint32(term), uint32(n))
}

func (s *script) run(words []string) string {
	s.out.Reset()
	s.command(words[0], words[1:])
	if err := s.shard.Core.Check(); err != nil {
		s.t.Fatalf("after %v: %v", words, err)
	}
	if after := s.status(); after != s.before {
		s.say("%s", after)
		s.before = after
	}
	return s.out.String()
}

// option returns the value of an argument k=v.
func option(args []string, k string) (v string, ok bool) {
	for _, a := range args {
		if key, value, _ := strings.Cut(a, "="); key == k {
			return value, true
		}
	}
	return "", false
}

func (s *script) command(command string, args []string) {
	has := func(word string) bool { return slices.Contains(args, word) }
	switch command {
	case "config":
		s.cfg.Drops, s.cfg.Settles = has("drops"), has("settles")
		lead, _ := option(args, "lead")
		s.begin(region.Handoff{DropCalls: has("drop-calls"), Serving: has("serving")}, lead)
	case "place":
		term := uint32(1)
		if v, ok := option(args, "term"); ok {
			term = uint32(s.epoch(v).Counter())
		}
		s.shard.Place(node(args[0]), s.epoch(args[1]), term)
	case "call":
		s.call(args)
	case "accept":
		c := s.newCall(args)
		s.say("%s is accepted: %v", c.name, s.shard.Accept(&c.Call, s.now, nil))
	case "begin":
		if e := s.shard.Begin(args[0]); e != nil {
			s.turn(e)
			s.say("its turn begins")
		} else {
			s.say("it must queue")
		}
	case "end":
		e := s.turns[args[0]]
		if e == nil {
			s.say("it has no turn")
			return
		}
		delete(s.turns, args[0])
		s.keeps = has("kept")
		s.shard.EndTurn(e)
	case "cancel":
		s.say("it waited: %v", s.shard.Cancel(node(args[0]), args[1], s.calls[args[2]].ID))
	case "withdraw":
		s.say("it waited: %v", s.shard.Withdraw(&s.calls[args[0]].Call))
	case "step":
		s.step(args)
	case "order":
		s.order(args)
	case "held":
		o, ok := s.shard.Held()
		s.say("%v at %s, move %s, with %s: %v", o.State, counter(o.Epoch), counter(o.Move), name(o.Peer), ok)
	default:
		s.processCommand(command, args)
	}
}

// processCommand executes a command about the process or the network.
func (s *script) processCommand(command string, args []string) {
	switch command {
	case "handoff":
		s.shard.HandOff()
	case "may":
		for _, e := range s.stops {
			if e.ID == args[0] && s.shard.MayStop(e) {
				s.passivate(e)
				s.say("its hook runs")
			} else if e.ID == args[0] {
				s.say("its hook must not run")
			}
		}
	case "stopped":
		done := s.stopsDone
		if s.stopsDone = nil; done == nil {
			s.say("nothing is stopped")
			return
		}
		if len(args) > 0 {
			done(errors.New(args[0]))
			return
		}
		for _, e := range s.stops {
			if s.shard.MayStop(e) {
				s.passivate(e)
			}
		}
		done(nil)
	case "flush":
		s.shard.Flush(region.Flush{
			Sender: transport.Peer{Address: node(args[0])}, Via: transport.Peer{Address: node("a")},
			Epoch: s.epoch(args[1]), Hop: s.epoch(args[2]), To: node(args[3]),
		})
	case "removed":
		departed := func(a transport.Address) bool { return a == node(args[0]) }
		s.shard.Depart(departed, false, nil)
		s.shard.OpenBarriers(departed)
	case "departed":
		s.departed = append(s.departed, node(args[0]))
	case "lost":
		s.lost = append(s.lost, node(args[0]))
	case "small":
		s.sessionWith(args[0]).err = fmt.Errorf("send: %w", stream.ErrTooLarge)
	case "closed":
		s.sessionWith(args[0]).err = errors.New("the peer is gone")
	case "return":
		c := s.newCall(args)
		c.Via = node("a")
		nobody := func(transport.Address) bool { return false }
		s.shard.Depart(nobody, slices.Contains(args, "died"), []region.Returned{{Call: &c.Call.Call}})
	case "needed":
		s.say("needed: %v", s.shard.Needed())
	case "dismiss":
		s.shard.Dismiss()
	case "exiting":
		s.exiting = true
	case "tick":
		s.tick(args[0])
	default:
		s.t.Fatalf("unknown command %s %v", command, args)
	}
}

// tick lets time pass, and calls the functions that were set for that time, in their order.
func (s *script) tick(duration string) {
	d, err := time.ParseDuration(duration)
	if err != nil {
		s.t.Fatal(err)
	}
	until := s.now.Add(d)
	for {
		next := -1
		for i, tm := range s.timers {
			if !tm.at.After(until) && (next < 0 || tm.at.Before(s.timers[next].at)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		tm := s.timers[next]
		s.timers = slices.Delete(s.timers, next, next+1)
		s.now = tm.at
		tm.f()
	}
	s.now = until
}

// newCall makes a call. Calls are named c1, c2, … in the order in which they come; the number is
// the call's id.
func (s *script) newCall(args []string) *driven {
	n := len(s.calls) + 1
	c := &driven{name: fmt.Sprintf("c%d", n)}
	c.ID, c.Method, c.Entity = uint64(n), []byte("M"), args[1]
	c.Sender, c.Epoch, c.Driver = transport.Peer{Address: node(args[0])}, s.epoch(args[2]), c
	for _, a := range args[3:] {
		switch k, v, _ := strings.Cut(a, "="); k {
		case "tell":
			c.Tell, c.ID = true, 0
		case "local":
			c.Local = true
		case "via":
			c.Via = node(v)
		case "deadline":
			d, _ := time.ParseDuration(v)
			c.Deadline = s.Elapsed() + int64(d)
		case "chain":
			c.Links = wire.AppendLink(nil, "K", v, 1)
			c.Chain = Chain(c.Links)
		}
	}
	s.calls[c.name] = c
	return c
}

func (s *script) call(args []string) {
	c := s.newCall(args)
	var current func() bool
	if slices.Contains(args, "left") {
		current = func() bool { return false }
	}
	e, v := s.shard.Deliver(&c.Call, s.now, current)
	s.say("%s: %v", c.name, v)
	if r, refused := s.shard.Refusal(&c.Call, v); refused {
		s.say("refused: %s%s%s", codes[r.Code], text([]byte(r.Text)), placed(r.Epoch, r.Home))
	}
	if v == region.Run {
		s.turn(e)
	}
}

func placed(e placement.Epoch, home transport.Address) string {
	if e == 0 {
		return ""
	}
	return fmt.Sprintf(": it is at %s, %s", name(home), counter(e))
}

func (s *script) order(args []string) {
	var m coordinator.Message
	switch args[0] {
	case "cancel":
		m = coordinator.MoveCancel{Term: term, ShardID: s.shard.ID, Epoch: s.epoch(args[1])}
	case "move":
		from, _ := s.shard.Placement()
		if v, ok := option(args, "from"); ok {
			from = s.epoch(v)
		}
		m = coordinator.MoveBegin{Term: term, ShardID: s.shard.ID, From: from, To: node(args[1]), Epoch: s.epoch(args[2])}
	}
	switch answer := s.shard.Obey(m, term).(type) {
	case nil:
	case coordinator.MoveStatus:
		s.say("answer: %v, %s", answer.State, counter(answer.Epoch))
	default:
		s.say("answer: %T", answer)
	}
}

func (s *script) step(args []string) {
	from := s.sessionWith(args[0])
	e := &wire.Envelope{Kind: s.cfg.Kind, Shard: 1}
	for typ, name := range types {
		if name == args[1] {
			e.Type = typ
		}
	}
	switch args[1] {
	case "barrier":
		e.Via.Address, e.Epoch = node(args[2]), uint64(s.epoch(args[3]))
	case "flushed":
		e.Node.Address, e.Via.Address = node(args[2]), node(args[3])
		e.Epoch, e.Hop = uint64(s.epoch(args[4])), uint64(s.epoch(args[5]))
		if to, ok := option(args, "to"); ok {
			e.Payload = wire.AppendPeer(nil, transport.Peer{Address: node(to)})
		}
	case "init":
		e.Epoch, e.Last = uint64(s.epoch(args[2])), slices.Contains(args, "last")
		for _, id := range args[3:] {
			if id == "forged" {
				e.Payload = []byte("\xff\xff\xff")
			} else if id != "last" {
				e.Payload = wire.AppendRecord(e.Payload, id, []byte("state of "+id), wire.NotRemembered)
			}
		}
	default:
		e.Epoch = uint64(s.epoch(args[2]))
		if w, ok := option(args, "departed"); ok {
			e.Payload = wire.AppendOpenPayload(nil, wire.OpenPayload{Departed: []transport.Address{node(w)}})
		}
		if args[1] == "reject" {
			e.Text = []byte("it leaves")
		}
	}
	if !s.shard.Step(from, e, nil) {
		s.say("no step of a move")
	}
}

// turn records that an entity's turn has begun.
func (s *script) turn(e *region.Entity) {
	if e.Value == nil {
		e.Value = "value"
		e.SetState(nil, codegen.Fresh)
	}
	s.turns[e.ID] = e
}

func (s *script) passivate(e *region.Entity) {
	if e.Value != nil {
		e.Value = nil
		e.SetState([]byte("state of "+e.ID), codegen.Reactivated)
		if e.ID == "large" {
			e.SetState(make([]byte, 2500), codegen.Reactivated)
		}
	}
}

// TestChangesAreNoted: the shard calls its host's Changed for each change.
func TestChangesAreNoted(t *testing.T) {
	s := newScript(t)
	s.run([]string{"place", "a", "2"})
	placed := s.changed
	if placed == 0 {
		t.Fatal("a shard that opens is not noted")
	}
	s.run([]string{"removed", "b"})
	if s.changed == placed {
		t.Error("opened barriers are not noted")
	}
}

package coordinator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/transcript"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestTranscripts runs testdata/*.txt, see package transcript. The commands:
//
//	start NODE term=1 [min=1] [moves=3] [leave=32] [anew=1]
//	view NODE:STATUS[:hosts][:unreachable] ... [unconverged]
//	register NODE KIND/SHARDS[:proxy] ... [SHARD:STATE:EPOCH[:MOVE:PEER]] ... [seq=1] [term=…]
//	    [alloc=STRATEGY] [moves=0] [hosts=0] [pins=SHARD@NODE,...] [pinned=EPOCH], of each type
//	    [paused=EPOCH], by bob
//	ask NODE KIND | request NODE SEQ
//	explain NODE SHARD
//	pin NODE ID KIND SHARD@NODE ... | kept NODE KIND EPOCH
//	balance NODE ID pause|resume|now, by ann | pausekept NODE EPOCH
//	done|cancelled NODE SHARD EPOCH [term=…]
//	status|aborted NODE SHARD EPOCH STATE|REASON
//	tick DURATION
//	table
//
// A node's incarnation is 1.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, func(t *testing.T) transcript.Command { return (&script{t: t, now: time.Unix(1_000_000, 0)}).run })
}

// TestSupersededSendsNothing: in the step in which a coordinator learns of a later term it sends
// nothing, because it has decided without knowing of that term.
func TestSupersededSendsNothing(t *testing.T) {
	later := Register{Term: placement.Term{Number: 1, Incarnation: 1}, Node: node("b"), Seq: 2, Shards: []HeldShard{
		{ShardID: placement.ShardID{Kind: "Cart", Shard: 2}, State: Active, Epoch: placement.MakeEpoch(2, 1)},
	}}
	for name, m := range map[string]Message{
		"a message of a later term": MoveDone{Term: placement.Term{Number: 2, Incarnation: 1}},
		"a claim of a later term":   later,
	} {
		s := &script{t: t, now: time.Unix(1_000_000, 0)}
		s.run([]string{"start", "a", "term=1"})
		s.run([]string{"view", "a:up:hosts", "b:up:hosts"})
		s.run([]string{"register", "a", "Cart/2"})
		s.run([]string{"register", "b", "Cart/2"})
		s.now = s.now.Add(time.Minute) // so that the next status is due
		out := s.c.Step(s.now, Receive{node("b"), m})
		if len(out.Send) > 0 || len(out.Events) != 1 || out.Events[0].What != Superseded {
			t.Errorf("%s: sent %d messages, events %v; want none, and that it is superseded", name, len(out.Send), out.Events)
		}
		if out := s.c.Step(s.now.Add(time.Minute), Tick{}); len(out.Send)+len(out.Events) > 0 {
			t.Errorf("%s: afterwards it does %+v, want nothing", name, out)
		}
	}
}

type script struct {
	t   *testing.T
	now time.Time
	c   *Coordinator
}

func (s *script) run(words []string) string {
	command, args := words[0], words[1:]
	options := map[string]string{}
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		k, v, ok := strings.Cut(a, "=")
		if ok {
			options[k] = v
		}
		return ok
	})
	switch command {
	case "start":
		c, err := New(Config{
			Self: node(args[0]), Term: s.term(options["term"]), MinMembers: s.number(options["min"]),
			MaxMoves: s.number(options["moves"]), MaxLeaveMoves: s.number(options["leave"]),
			Anew: options["anew"] != "",
		})
		if err != nil {
			s.t.Fatal(err)
		}
		s.c = c
		return ""
	case "table":
		return describeTable(s.c.Table().Full())
	}
	in := s.input(command, args, options)
	out := s.c.Step(s.now, in)
	if err := s.c.Check(); err != nil {
		s.t.Fatalf("after %v: %v", words, err)
	}
	_, ticked := in.(Tick)
	return describeOutput(out, ticked)
}

func (s *script) input(command string, args []string, options map[string]string) Input {
	term := s.c.config.Term
	if o := options["term"]; o != "" {
		term = s.term(o)
	}
	var m Message
	switch command {
	case "view":
		return s.view(args)
	case "tick":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
		return Tick{}
	case "register":
		r := s.register(args, max(1, s.number(options["seq"])), term)
		for i := range r.Types {
			r.Types[i].Tuning = Tuning{Allocation: options["alloc"], MaxMoves: uint32(s.number(options["moves"])), MinHosts: uint32(s.number(options["hosts"]))}
		}
		if options["pins"] != "" {
			r.Pins = []Pins{{r.Types[0].Name, s.epoch(options["pinned"]), s.pins(strings.Split(options["pins"], ",")), 0}}
		}
		if options["paused"] != "" {
			r.Pause = Pause{s.epoch(options["paused"]), true, "bob", time.Unix(900_000, 0)}
		}
		m = r
	case "explain":
		m = Explain{1, s.shard(args[1])}
	case "pin":
		m = SetPins{uint64(s.number(args[1])), args[2], s.pins(args[3:]), nil, false}
	case "move":
		m = SetPins{uint64(s.number(args[1])), args[2], s.pins(args[3:]), nil, true}
	case "balance":
		m = Balance{uint64(s.number(args[1])), map[string]Wanted{"pause": WantPause, "resume": WantResume, "now": WantNow}[args[2]], "ann"}
	case "pausekept":
		m = PauseKept{term, s.epoch(args[1])}
	case "kept":
		m = PinsKept{term, args[1], s.epoch(args[2])}
	case "ask":
		m = Ask{Type: args[1], Have: s.c.version()}
	case "request":
		m = TableRequest{Have: placement.Version{Term: term, Seq: uint64(s.number(args[1]))}}
	case "done":
		m = MoveDone{term, s.shard(args[1]), s.epoch(args[2])}
	case "cancelled":
		m = MoveCancelled{term, s.shard(args[1]), s.epoch(args[2])}
	case "status":
		m = MoveStatus{term, s.shard(args[1]), s.epoch(args[2]), s.state(args[3])}
	case "aborted":
		m = MoveAborted{term, s.shard(args[1]), s.epoch(args[2]), strings.Join(args[3:], " ")}
	default:
		s.t.Fatalf("unknown command %q", command)
	}
	return Receive{node(args[0]), m}
}

func (s *script) view(args []string) View {
	v := View{Converged: true}
	for _, a := range args {
		if a == "unconverged" {
			v.Converged = false
			continue
		}
		fields := strings.Split(a, ":")
		m := Member{Address: node(fields[0])}
		for st := membership.Joining; st <= membership.Down; st++ {
			if st.String() == fields[1] {
				m.Status = st
			}
		}
		m.Hosts = slices.Contains(fields, "hosts")
		m.Unreachable = slices.Contains(fields, "unreachable")
		if m.Status == 0 {
			s.t.Fatalf("unknown status in %q", a)
		}
		v.Members = append(v.Members, m)
	}
	return v
}

func (s *script) register(args []string, seq int, term placement.Term) Register {
	r := Register{Term: term, Node: node(args[0]), Seq: uint64(seq)}
	for _, a := range args[1:] {
		fields := strings.Split(a, ":")
		id := s.shard(fields[0])
		if len(fields) < 3 {
			r.Types = append(r.Types, TypeInfo{Name: id.Kind, Package: "p", Shards: id.Shard, HashName: "xxh64", Hosts: len(fields) == 1})
			continue
		}
		o := HeldShard{ShardID: id, State: s.state(fields[1])}
		if fields[2] != "-" {
			o.Epoch = s.epoch(fields[2])
		}
		if len(fields) == 5 {
			o.Move, o.Peer = s.epoch(fields[3]), node(fields[4])
		}
		r.Shards = append(r.Shards, o)
	}
	return r
}

func (s *script) pins(words []string) (pins []Pin) {
	for _, w := range words {
		shard, node, _ := strings.Cut(w, "@")
		pins = append(pins, Pin{uint32(s.number(shard)), node})
	}
	return pins
}

func node(name string) transport.Address { return transport.Address{Name: name, Incarnation: 1} }

func (s *script) number(text string) int {
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) term(text string) placement.Term {
	return placement.Term{Number: uint32(s.number(text)), Incarnation: 1}
}

func (s *script) shard(text string) placement.ShardID {
	kind, n, _ := strings.Cut(text, "/")
	return placement.ShardID{Kind: kind, Shard: uint32(s.number(n))}
}

func (s *script) epoch(text string) placement.Epoch {
	term, counter, _ := strings.Cut(text, ".")
	return placement.MakeEpoch(uint32(s.number(term)), uint32(s.number(counter)))
}

func (s *script) state(text string) HeldState {
	for st := Active; st <= Prepared; st++ {
		if st.String() == text {
			return st
		}
	}
	s.t.Fatalf("unknown state %q", text)
	return 0
}

// describeOutput describes an output, without the statuses that are sent to all members every
// second.
func describeOutput(o Output, ticked bool) string {
	var b strings.Builder
	for _, e := range o.Events {
		fmt.Fprintf(&b, "* %v\n", e)
	}
	for _, e := range o.Send {
		to := e.To.Name
		if e.To.IsZero() {
			to = "all"
		}
		if _, ok := e.Message.(TableStatus); ok && ticked && to == "all" {
			continue
		}
		fmt.Fprintf(&b, "→ %s %s\n", to, describeMessage(e.Message))
	}
	return b.String()
}

func describeMessage(m Message) string {
	switch m := m.(type) {
	case Table:
		return strings.TrimSuffix("Table "+describeTable(m.Diff), "\n")
	case TableStatus:
		return fmt.Sprintf("TableStatus %d/%d", m.Version.Term.Number, m.Version.Seq)
	case Registered:
		return fmt.Sprintf("Registered seq=%d", m.Seq)
	case NoHome:
		return fmt.Sprintf("NoHome %s: %s", m.Type, m.Reason)
	case Explained:
		return fmt.Sprintf("Explained: %s", m.Text)
	case KeepPins:
		return fmt.Sprintf("KeepPins %s %v at %v", m.Type, m.Pins.Pins, m.Seq)
	case PinsSet:
		return fmt.Sprintf("PinsSet %d %q", m.ID, m.Reason)
	case Balanced:
		return fmt.Sprintf("Balanced %d %q %q", m.ID, m.Refusal, m.Text)
	case Paused:
		return fmt.Sprintf("Paused at %v: %v", m.Seq, m.Pause)
	case MoveBegin:
		return fmt.Sprintf("MoveBegin %v to %s: %v→%v", m.ShardID, m.To.Name, m.From, m.Epoch)
	case MoveCancel:
		return fmt.Sprintf("MoveCancel %v at %v", m.ShardID, m.Epoch)
	}
	return fmt.Sprintf("%T %+v", m, m)
}

// describeTable describes shards of the same home and epoch together: "Cart/4 a 1.1", "Cart/5-7 b
// 1.1".
func describeTable(d placement.Diff) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d", d.To.Term.Number, d.To.Seq)
	if d.Full {
		b.WriteString(" full")
	}
	for i := 0; i < len(d.Entries); {
		e, j := d.Entries[i], i+1
		for j < len(d.Entries) && d.Entries[j].Kind == e.Kind && d.Entries[j].Home == e.Home &&
			d.Entries[j].Epoch == e.Epoch && d.Entries[j].Shard == e.Shard+uint32(j-i) {
			j++
		}
		fmt.Fprintf(&b, " | %v", e.ShardID)
		if j > i+1 {
			fmt.Fprintf(&b, "-%d", d.Entries[j-1].Shard)
		}
		home := e.Home.Name
		if e.Home.IsZero() {
			home = "nobody"
		}
		fmt.Fprintf(&b, " %s %v", home, e.Epoch)
		i = j
	}
	for _, a := range d.Gone {
		fmt.Fprintf(&b, " | gone %s", a.Name)
	}
	return b.String() + "\n"
}

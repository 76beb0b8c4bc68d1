package remember

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/transcript"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestTranscripts runs testdata/*.txt, see package transcript. The commands:
//
//	replicas N | max N                 of the type Cart, in the first block
//	view b c:joining ...
//	open EPOCH [known] [ID ...]        of the only shard, Cart/4
//	close | add ID TOKEN | remove ID
//	keep NODE SEQ EPOCH [reset] [seal=CHANGE|at=CHANGE] [drop] [ID|-ID ...]
//	kept NODE SEQ | recall NODE SEQ [AFTER]
//	recalled NODE SEQ EPOCH CHANGE [more] [ID ...]
//	tick DURATION
func TestTranscripts(t *testing.T) {
	transcript.Run(t, func(t *testing.T) transcript.Command { return (&script{t: t, now: time.Unix(1000, 0)}).run })
}

type script struct {
	t    *testing.T
	now  time.Time
	kind Kind
	m    *Machine
}

var cart = placement.ShardID{Kind: "Cart", Shard: 4}

func at(name string) transport.Address { return transport.Address{Name: name, Incarnation: 1} }

func (s *script) run(words []string) string {
	switch words[0] {
	case "replicas":
		s.kind.Replicas = int(s.number(words[1]))
		return ""
	case "max":
		s.kind.Max = int(s.number(words[1]))
		return ""
	}
	if s.m == nil {
		s.m = New(Config{Kinds: map[string]Kind{"Cart": s.kind}, MaxBatch: 200})
	}
	out := s.m.Step(s.now, s.input(words[0], words[1:]))
	if err := s.m.Check(); err != nil {
		s.t.Fatalf("after %v: %v", words, err)
	}
	return describe(out)
}

func (s *script) number(w string) uint64 {
	n, err := strconv.ParseUint(w, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) epoch(w string) placement.Epoch {
	term, counter, _ := strings.Cut(w, ".")
	return placement.MakeEpoch(uint32(s.number(term)), uint32(s.number(counter)))
}

func (s *script) input(command string, args []string) Input {
	switch command {
	case "view":
		var v View
		for _, w := range args {
			name, joining, _ := strings.Cut(w, ":")
			v.Members = append(v.Members, Member{at(name), joining == "", []string{"Cart"}})
		}
		return v
	case "open":
		o := Open{ShardID: cart, Epoch: s.epoch(args[0])}
		if len(args) > 1 {
			o.Known, o.IDs = true, args[2:]
		}
		return o
	case "close":
		return Close{cart}
	case "add":
		return Add{cart, args[0], Ticket(s.number(args[1]))}
	case "remove":
		return Remove{cart, args[0]}
	case "tick":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
		return Tick{}
	}
	return Receive{at(args[0]), s.message(command, s.number(args[1]), args[2:])}
}

func (s *script) message(command string, seq uint64, args []string) Message {
	p := Part{ShardID: cart}
	switch command {
	case "kept":
		return Kept{seq}
	case "recall":
		w := Want{ShardID: cart}
		if len(args) > 0 {
			w.After = args[0]
		}
		return Recall{seq, []Want{w}}
	case "recalled":
		p.Epoch, p.Seq, args = s.epoch(args[0]), s.number(args[1]), args[2:]
	case "keep":
		p.Epoch, args = s.epoch(args[0]), args[1:]
	default:
		s.t.Fatalf("unknown command %s", command)
	}
	for _, w := range args {
		key, value, _ := strings.Cut(w, "=")
		switch {
		case w == "reset":
			p.Reset = true
		case w == "drop":
			p.Drop = true
		case w == "more":
			p.More = true
		case value != "":
			p.Seal, p.Seq = key == "seal", s.number(value)
		default:
			p.Changes = append(p.Changes, Change{strings.TrimPrefix(w, "-"), w[0] == '-'})
		}
	}
	if command == "keep" {
		return Keep{seq, []Part{p}}
	}
	return Recalled{seq, []Part{p}}
}

func describe(out Output) string {
	var b strings.Builder
	for _, e := range out.Send {
		fmt.Fprintf(&b, "to %s: %s\n", e.To.Name, describeMessage(e.Message))
	}
	for _, r := range out.Recalled {
		fmt.Fprintf(&b, "recalled: %d ids", r.Found)
		for _, a := range r.Silent {
			fmt.Fprintf(&b, ", %s is silent", a.Name)
		}
		b.WriteString("\n")
	}
	for _, s := range out.Activate {
		fmt.Fprintf(&b, "activate: %s\n", strings.Join(s.IDs, " "))
	}
	for _, d := range out.Done {
		fmt.Fprintf(&b, "done %d: new %t, %v\n", d.Ticket, d.New, d.Err)
	}
	return b.String()
}

func describeMessage(m Message) string {
	switch m := m.(type) {
	case Keep:
		return fmt.Sprintf("keep %d:%s", m.Seq, describeParts(m.Parts))
	case Kept:
		return fmt.Sprintf("kept %d", m.Seq)
	case Recall:
		s := fmt.Sprintf("recall %d", m.Seq)
		for _, w := range m.Wants {
			if w.After != "" {
				s += " after " + w.After
			}
		}
		return s
	case Recalled:
		return fmt.Sprintf("recalled %d:%s", m.Seq, describeParts(m.Parts))
	}
	return ""
}

func describeParts(parts []Part) (s string) {
	for _, p := range parts {
		s += fmt.Sprintf(" [%v/%d", p.Epoch, p.Seq)
		for _, flag := range []struct {
			is   bool
			name string
		}{{p.Reset, "reset"}, {p.Seal, "seal"}, {p.Drop, "drop"}, {p.More, "more"}} {
			if flag.is {
				s += " " + flag.name
			}
		}
		for _, c := range p.Changes {
			if s += " "; c.Gone {
				s += "-"
			}
			s += c.ID
		}
		s += "]"
	}
	return s
}

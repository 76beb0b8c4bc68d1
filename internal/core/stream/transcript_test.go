package stream

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/test/transcript"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestTranscripts runs testdata/*.txt: one route of a process, see package
// transcript. Epochs are the counters of term 1. The commands:
//
//	learn HOME|none EPOCH [acked=SEQ] [local]
//	supersede HOME EPOCH [acked=SEQ]
//	send CALL SEQ               append it where the route is known
//	hold CALL...                it is not
//	refused CALL BY HOME|none EPOCH
//	acked BY SEQ
//	gone NODE CALL...           with what it certainly did not handle
//	absent NODE                 who goes there finds that it has departed
//	drop CALL
//
// After each Flush and Barrier the script tells the route the next sequence, as the
// driver does.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, func(t *testing.T) transcript.Command { return (&script{t: t}).run })
}

// A script is one route under way.
type script struct {
	t      *testing.T
	r      Route
	seq    uint64 // of the last envelope on any session
	before string
	absent []transport.Address
}

func address(name string) transport.Address {
	if name == "none" {
		return transport.Address{}
	}
	return transport.Address{Name: name, Incarnation: 1}
}

func nameOf(a transport.Address) string {
	if a.IsZero() {
		return "none"
	}
	return a.Name
}

// acknowledged reads the sequence number of acked=NUMBER; departed is that of a home that is gone.
func (s *script) acknowledged(word string) uint64 {
	if word == "departed" {
		return Departed
	}
	return s.number(word)
}

func (s *script) number(word string) uint64 {
	n, err := strconv.ParseUint(word, 10, 32)
	if err != nil {
		s.t.Fatalf("number %q: %v", word, err)
	}
	return n
}

func (s *script) epoch(word string) placement.Epoch {
	if n := s.number(word); n > 0 {
		return placement.MakeEpoch(1, uint32(n))
	}
	return 0
}

func calls(names []string) (out []Outgoing) {
	for _, n := range names {
		out = append(out, Outgoing{Driver: n})
	}
	return out
}

func (s *script) run(words []string) string {
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	s.command(words[0], words[1:], say)
	r := &s.r
	after := fmt.Sprintf("%v (%s at %d, last %d, holds %d)", r.State, nameOf(r.Home), r.Epoch.Counter(), r.LastSeq, r.Held())
	if after != s.before {
		say("%s", after)
		s.before = after
	}
	return out.String()
}

func (s *script) command(command string, args []string, say func(string, ...any)) {
	switch command {
	case "supersede":
		acked := uint64(0)
		for _, a := range args[2:] {
			acked = s.number(strings.TrimPrefix(a, "acked="))
		}
		s.step(s.r.Supersede(address(args[0]), s.epoch(args[1]), acked, false), say)
	case "learn":
		acked := uint64(0)
		for _, a := range args[2:] {
			if n, ok := strings.CutPrefix(a, "acked="); ok {
				acked = s.acknowledged(n)
			}
		}
		s.step(s.r.Learn(address(args[0]), s.epoch(args[1]), acked, slices.Contains(args, "local")), say)
	case "send":
		if s.r.State != Known {
			s.t.Fatalf("send: the route is %v", s.r.State)
		}
		s.seq = s.number(args[1])
		s.r.LastSeq = s.seq
	case "hold":
		for _, o := range calls(args) {
			say("held, ask: %v", s.r.Hold(o))
		}
	case "refused":
		s.r.Refused(address(args[1]), calls(args[:1])[0], address(args[2]), s.epoch(args[3]))
	case "acked":
		s.step(s.r.Acked(address(args[0]), s.acknowledged(args[1])), say)
	case "gone":
		s.step(s.r.HomeDeparted(address(args[0]), calls(args[1:])), say)
	case "absent":
		s.absent = append(s.absent, address(args[0]))
	case "drop":
		say("dropped %v", names(s.r.Drop(func(o Outgoing) bool { return o.Driver == args[0] })))
	default:
		s.t.Fatalf("unknown command %s", command)
	}
}

// step does what the driver does with a Step.
func (s *script) step(step Step, say func(string, ...any)) {
	if !step.FlushTo.IsZero() {
		s.seq++
		say("flush to %s, which was left at %d for %s at %d: sequence %d",
			nameOf(step.FlushTo), step.Left.Counter(), nameOf(step.Home), step.Epoch.Counter(), s.seq)
		if s.r.State == Stopped {
			s.r.LastSeq = s.seq
		}
	}
	if step.Go && slices.Contains(s.absent, s.r.Home) {
		say("%s is gone", nameOf(s.r.Home))
		step = s.r.HomeDeparted(s.r.Home, step.Deliver)
	}
	if step.Go {
		for _, via := range step.Via {
			s.seq++
			s.r.LastSeq = s.seq
			departed := ""
			if via.Departed {
				departed = ", which has departed"
			}
			say("barrier at %s for what comes via %s%s: sequence %d", nameOf(s.r.Home), nameOf(via.Address), departed, s.seq)
		}
		say("go to %s at %d, deliver %v", nameOf(s.r.Home), s.r.Epoch.Counter(), names(step.Deliver))
	}
	if step.Ask {
		say("ask who is its home")
	}
}

func names(list []Outgoing) []string {
	out := []string{}
	for _, o := range list {
		out = append(out, o.Driver.(string))
	}
	return out
}

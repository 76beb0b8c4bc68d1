package shardhost

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A script is the process of the shard.
var _ Host = (*script)(nil)

// A session is the script's session with another process. It prints appended envelopes.
type session struct {
	s    *script
	peer string
	seq  uint64
	err  error
}

func (s *script) sessionWith(peer string) *session {
	if s.sessions[peer] == nil {
		s.sessions[peer] = &session{s: s, peer: peer}
	}
	return s.sessions[peer]
}

func (p *session) Peer() transport.Peer { return transport.Peer{Address: node(p.peer)} }

func (p *session) Append(e *wire.Envelope) (uint64, error) {
	if p.err != nil {
		return 0, p.err
	}
	p.seq++
	p.s.say("to %s: %s", p.peer, p.s.envelope(e))
	return p.seq, nil
}

func (p *session) AppendAll(parts []*wire.Envelope) error {
	for _, e := range parts {
		if _, err := p.Append(e); err != nil {
			return err
		}
	}
	return nil
}

func (p *session) Flush() { p.s.say("flush to %s", p.peer) }

// types and codes are the names of envelope types and answer codes in transcripts.
var (
	types = map[wire.Type]string{
		wire.TypeCall: "call", wire.TypeTell: "tell", wire.TypeInit: "init", wire.TypeReady: "ready", wire.TypeOpen: "open",
		wire.TypeReject: "reject", wire.TypeFlushed: "flushed", wire.TypeBarrier: "barrier",
	}
	codes = map[wire.Code]string{
		wire.CodeMoved: "moved", wire.CodeDropped: "dropped", wire.CodeUnsendable: "unsendable",
		wire.CodeOverloaded: "overloaded", wire.CodeCircular: "circular",
	}
)

// envelope returns an envelope's type and fields as text.
func (s *script) envelope(e *wire.Envelope) string {
	text := fmt.Sprintf("%s %s", types[e.Type], counter(placement.Epoch(e.Epoch)))
	switch e.Type {
	case wire.TypeCall, wire.TypeTell:
		text += fmt.Sprintf(" for %s of %s", e.Entity, name(e.Node.Address))
		if e.Timeout > 0 {
			text += fmt.Sprintf(" within %v", time.Duration(e.Timeout)*time.Microsecond)
		}
	case wire.TypeFlushed:
		text += fmt.Sprintf(" of %s via %s, hop %s", name(e.Node.Address), name(e.Via.Address), counter(placement.Epoch(e.Hop)))
		if to := FlushOf(e).To; !to.IsZero() {
			text += ", ends at " + to.Name
		}
	case wire.TypeInit:
		states, ids, _ := unpack(e.Payload)
		for _, id := range slices.Sorted(maps.Keys(states)) {
			text += fmt.Sprintf(" %s of %d bytes,", id, len(states[id]))
		}
		text += fmt.Sprintf(" %d remembered, last: %v", len(ids.IDs), e.Last)
	case wire.TypeOpen:
		w, _ := wire.ParseOpenPayload(e.Payload)
		for _, a := range w.Departed {
			text += ", departed: " + a.Name
		}
		for _, r := range w.Refused {
			text += fmt.Sprintf(", refused: %s via %s", name(r.Sender), name(r.Via))
		}
	case wire.TypeReject:
		text += fmt.Sprintf(" %q", e.Text)
	}
	return text
}

// Now, Elapsed and After implement Clock.
func (s *script) Now() time.Time { return s.now }
func (s *script) Elapsed() int64 { return int64(s.now.Sub(time.Unix(1_000_000, 0))) }
func (s *script) After(d time.Duration, f func()) {
	s.timers = append(s.timers, timer{s.now.Add(d), f})
}

// Session and the following methods implement Sessions.
func (s *script) Session(to transport.Peer) (Session, bool) {
	if slices.Contains(s.lost, to.Address) {
		return nil, false
	}
	return s.sessionWith(to.Name), true
}
func (s *script) Departed() []transport.Address        { return s.departed }
func (s *script) HasDeparted(a transport.Address) bool { return slices.Contains(s.departed, a) }
func (s *script) Departs(transport.Address) bool       { return false }
func (s *script) MaxPayload() int                      { return 1 << 10 }
func (s *script) Learn(a transport.Address, e placement.Epoch) {
	s.say("learn %s at %s", name(a), counter(e))
}

// Run and the following methods implement Turns.
func (s *script) Run(e *region.Entity, c *Call) {
	s.turn(e)
	s.say("run %s", s.nameOf(c))
}

func (s *script) Grant(c *Call, e *region.Entity) {
	if e == nil {
		s.say("%s looks for a home anew", s.nameOf(c))
		return
	}
	s.turn(e)
	s.say("%s is granted its turn", s.nameOf(c))
}
func (s *script) Lead(e *region.Entity)                { s.turn(e); s.say("%s leads", e.ID) }
func (s *script) Release()                             { s.say("release") }
func (s *script) Drained()                             { s.say("drained") }
func (s *script) Changed(opened bool)                  { s.changed++ }
func (s *script) Why(_ *Call, v region.Verdict) string { return "why " + v.String() }

func (s *script) StopEntities(entities []*region.Entity, done func(error)) {
	var ids []string
	for _, e := range entities {
		ids = append(ids, e.ID)
	}
	s.say("stop %s", strings.Join(ids, " "))
	s.stops, s.stopsDone = entities, done
}

func (s *script) Answer(c *Call, e *wire.Envelope) {
	s.say("answer %s: %s%s%s", s.nameOf(c), codes[e.Code], text(e.Text), placed(placement.Epoch(e.Epoch), e.Node.Address))
}

// text returns the text of an answer, besides its code.
func text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return ", " + string(b)
}

func (s *script) Forwarded(c *Call, to Session, seq uint64) {
	s.say("%s went to %s as its %d", s.nameOf(c), to.Peer().Name, seq)
}
func (s *script) LoseTell(c *Call) { s.say("%s is lost", s.nameOf(c)) }

func (s *script) Canceler(c *Call) func() {
	return func() { s.say("cancel the turn of %s", s.nameOf(c)) }
}

func (s *script) InDoubt(c *Call) func() {
	return func() { s.say("%s is in doubt", s.nameOf(c)) }
}

func (s *script) nameOf(c *Call) string { return c.Driver.(*driven).name }

// Exiting and the following methods implement Control.
func (s *script) Exiting() bool              { return s.exiting }
func (s *script) MoveDone(e placement.Epoch) { s.say("move done: %s", counter(e)) }
func (s *script) MoveAborted(e placement.Epoch, reason string) {
	s.say("move %s aborted: %s", counter(e), reason)
}
func (s *script) Progress()        { s.say("progress") }
func (s *script) Carried() Carried { return s.remember }
func (s *script) Arrived(ids Carried) {
	s.say("%d remembered ids arrived for %s, all: %v", len(ids.IDs), counter(ids.Epoch), ids.All)
}

func (s *script) BarrierTimedOut(b region.Shut) {
	s.say("the barrier for %s via %s timed out", name(b.Sender), name(b.Via))
}

// counters has the names of the counters.
var counters = map[Counter]string{
	CallForwarded: "forwarded", CallRefused: "refused", CallDropped: "dropped", CallCancelled: "cancelled",
	MovedIn: "moved in", MovedOut: "moved out", NoPeer: "no peer",
}

func (s *script) Count(c Counter) { s.say("count: %s", counters[c]) }

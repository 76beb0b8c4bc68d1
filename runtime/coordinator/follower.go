package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

const requestInterval = 200 * time.Millisecond

// A Follower is the part of every process that follows the coordinator: it keeps the table,
// requests lost differences, obeys the highest term and refuses lower ones, and says when to
// register. It is a pure machine, not safe for concurrent use.
type Follower struct {
	hosts       bool
	term        placement.Term    // the highest heard of: lower ones are refused
	coordinator transport.Address // the last sender of a message of that term
	table       *placement.Table
	latest      placement.Version // the highest heard of
	parts       []Table           // of one incomplete difference
	seq         uint64            // of the node's latest Register; 0 means none
	registered  bool              // the term's coordinator knows seq
	registerAt  time.Time         // when to send the next Register
	requestAt   time.Time         // no TableRequest before this time
	pins        map[string]Pins   // the latest, by type
	pause       Pause             // the latest
}

// NewFollower returns a follower with the empty table. If hosts is set, as in processes that host
// types, the follower registers with every coordinator.
func NewFollower(hosts bool) *Follower {
	return &Follower{hosts: hosts, seq: 1}
}

// Followed lists the driver's actions after a step of a [Follower], in this order.
type Followed struct {
	// Refused means that the message is of an ended term and must be ignored.
	Refused bool
	// Table is the new table, if there is one.
	Table *placement.Table
	// Register means that the driver must send the result of [Follower.Register] to Coordinator, at
	// once and with the shards held by the node at this moment.
	Register bool
	// Send has messages to the coordinator at address Coordinator.
	Send        []Message
	Coordinator transport.Address
	// WakeAt is when Step must be called next, if there is no other input before; zero means never.
	WakeAt time.Time
}

// Table returns the present table, or nil until the first one has come.
func (f *Follower) Table() *placement.Table { return f.table }

// Term returns the highest known term, which this process obeys.
func (f *Follower) Term() placement.Term { return f.term }

// Coordinator returns the coordinator of the term, or zero if none is known yet.
func (f *Follower) Coordinator() transport.Address { return f.coordinator }

// Changed records that the node must register again. Call it, and then Step, after each change of
// the node's types. Until the first table of the term has come, call both also when a move of one
// of the node's shards has progressed.
func (f *Follower) Changed() {
	f.seq++
	f.registered = false
	f.registerAt = time.Time{}
}

// Unsettled reports whether the term's first table has not arrived yet. Until then the coordinator
// depends on registrations.
func (f *Follower) Unsettled() bool { return f.table.Version().Term != f.term }

// Register returns the message by which the node registers now.
func (f *Follower) Register(self transport.Address, kinds []TypeInfo, held []HeldShard) Register {
	r := Register{Term: f.term, Node: self, Seq: f.seq, Types: kinds, Shards: held, Pause: f.pause}
	for _, kind := range slices.Sorted(maps.Keys(f.pins)) {
		r.Pins = append(r.Pins, f.pins[kind])
	}
	return r
}

// Pins returns the latest pins of the type that this process was asked to keep.
func (f *Follower) Pins(kind string) Pins { return f.pins[kind] }

// Pause returns the latest pause of rebalancing that this process was asked to keep.
func (f *Follower) Pause() Pause { return f.pause }

func (f *Follower) keepPause(p Paused, out *Followed) {
	if p.Seq > f.pause.Seq {
		f.pause = p.Pause
	}
	out.Send = append(out.Send, PauseKept{p.Term, f.pause.Seq})
}

func (f *Follower) keep(p KeepPins, out *Followed) {
	if p.Seq > f.pins[p.Type].Seq {
		if f.pins == nil {
			f.pins = map[string]Pins{}
		}
		f.pins[p.Type] = p.Pins
	}
	out.Send = append(out.Send, PinsKept{p.Term, p.Type, f.pins[p.Type].Seq})
}

// Step handles a message from a coordinator, or the passing of time if m is nil. Call it first with
// every message from a coordinator. Unless the result is Refused, pass messages about moves on to
// the shard afterwards.
func (f *Follower) Step(now time.Time, from transport.Address, m Message) Followed {
	var out Followed
	if m != nil {
		term := m.term()
		switch term.Compare(f.term) {
		case -1:
			return Followed{Refused: true, Coordinator: f.coordinator, WakeAt: f.wakeAt()}
		case 1:
			// From here on lower terms are refused; Register is made afterwards.
			f.term, f.registered, f.registerAt, f.parts = term, false, now, nil
			f.latest, f.requestAt = placement.Version{Term: term}, time.Time{}
		}
		f.coordinator = from
	}
	switch m := m.(type) {
	case Registered:
		f.registered = f.registered || m.Seq == f.seq
	case KeepPins:
		f.keep(m, &out)
	case Paused:
		f.keepPause(m, &out)
	case TableStatus:
		f.hear(m.Version)
		// New members get the coordinator's status: a Register from before the node was a member
		// was refused, and is sent again at once.
		f.registerAt = now
	case Table:
		f.hear(m.To)
		f.collect(m, &out)
	}
	f.request(now, &out)
	if f.mustRegister() && !now.Before(f.registerAt) {
		f.registerAt = now.Add(500 * time.Millisecond)
		out.Register = true
	}
	out.Coordinator, out.WakeAt = f.coordinator, f.wakeAt()
	return out
}

func (f *Follower) hear(v placement.Version) {
	if v.Compare(f.latest) > 0 {
		f.latest = v
	}
}

func (f *Follower) behind() bool {
	return f.latest.Seq > 0 && f.latest.Compare(f.table.Version()) > 0
}

func (f *Follower) mustRegister() bool {
	return f.hosts && !f.registered && f.term != (placement.Term{})
}

// collect gathers the parts of a difference, and applies the difference when all its parts have
// come. It drops a difference that does not start at the version of f's table; f then requests one
// that does.
func (f *Follower) collect(t Table, out *Followed) {
	if t.To.Compare(f.table.Version()) <= 0 || t.Part >= t.Parts {
		return
	}
	if len(f.parts) > 0 {
		p := f.parts[0]
		if t.To.Compare(p.To) < 0 {
			return
		}
		if t.To != p.To || t.From != p.From || t.Full != p.Full || t.Parts != p.Parts {
			f.parts = nil
		}
	}
	if slices.ContainsFunc(f.parts, func(p Table) bool { return p.Part == t.Part }) {
		return
	}
	f.parts = append(f.parts, t)
	if uint32(len(f.parts)) < t.Parts {
		return
	}
	d := join(f.parts)
	f.parts = nil
	if next, err := f.table.Apply(d); err == nil {
		f.table, out.Table = next, next
	}
}

func (f *Follower) request(now time.Time, out *Followed) {
	if f.behind() && !now.Before(f.requestAt) {
		f.requestAt = now.Add(requestInterval)
		out.Send = append(out.Send, TableRequest{f.table.Version()})
	}
}

func (f *Follower) wakeAt() time.Time {
	var at time.Time
	if f.behind() {
		at = f.requestAt
	}
	if f.mustRegister() && (at.IsZero() || f.registerAt.Before(at)) {
		at = f.registerAt
	}
	return at
}

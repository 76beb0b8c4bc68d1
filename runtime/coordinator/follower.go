package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// requestInterval is the time between two requests for the same missing table.
const requestInterval = 200 * time.Millisecond

// A Follower is any process's side of the table protocol: it keeps the table, asks for
// lost differences, promises and refuses terms, and says when to register. It is a pure
// machine, not safe for concurrent use.
type Follower struct {
	hosts       bool
	term        placement.Term    // the highest heard of: everything below is refused
	coordinator transport.Address // the last sender of a message of that term
	table       *placement.Table
	latest      placement.Version // the highest heard of
	parts       []Table           // of one difference that has not come whole
	seq         uint64            // of the node's latest Register; 0 means none
	registered  bool              // the term's coordinator knows seq
	registerAt  time.Time         // next Register
	requestAt   time.Time         // no TableRequest before
	pins        map[string]Pins   // the latest, by type
	pause       Pause             // the latest
}

// NewFollower returns a follower with the empty table. One that hosts
// registers with every coordinator.
func NewFollower(hosts bool) *Follower {
	return &Follower{hosts: hosts, seq: 1}
}

// Followed has the driver's duties after a step of a [Follower], in this order.
type Followed struct {
	// Refused reports that the message is of a term that is over. It is to be ignored.
	Refused bool
	// Table is the new table, if there is one.
	Table *placement.Table
	// Register asks for the result of [Follower.Register] to be sent to Coordinator, at once
	// and with the shards that the node holds at this moment.
	Register bool
	// Send is for the coordinator, whose address is Coordinator.
	Send        []Message
	Coordinator transport.Address
	// WakeAt is when the next Step is due if nothing happens before; zero means never.
	WakeAt time.Time
}

// Table is the current table; nil until the first one came.
func (f *Follower) Table() *placement.Table { return f.table }

// Term is the highest term heard of, which is the one promised to.
func (f *Follower) Term() placement.Term { return f.term }

// Coordinator is the term's coordinator; zero before any was heard.
func (f *Follower) Coordinator() transport.Address { return f.coordinator }

// Changed says that the node has something new to register: its types changed
// or, before the first table of the term has come, a shard of its own got
// further in a move. Call it after every such change; Step follows.
func (f *Follower) Changed() {
	f.seq++
	f.registered = false
	f.registerAt = time.Time{}
}

// Unsettled reports whether the term's first table has not arrived, so that the
// coordinator relies on registrations.
func (f *Follower) Unsettled() bool { return f.table.Version().Term != f.term }

// Register is the message to register with now.
func (f *Follower) Register(self transport.Address, kinds []TypeInfo, held []HeldShard) Register {
	r := Register{Term: f.term, Node: self, Seq: f.seq, Types: kinds, Shards: held, Pause: f.pause}
	for _, kind := range slices.Sorted(maps.Keys(f.pins)) {
		r.Pins = append(r.Pins, f.pins[kind])
	}
	return r
}

// Pins are the latest pins of the type that this process was told to keep.
func (f *Follower) Pins(kind string) Pins { return f.pins[kind] }

// Pause is the latest pause of rebalancing that this process was told to keep.
func (f *Follower) Pause() Pause { return f.pause }

// keepPause keeps a pause of rebalancing, or its end, for the next coordinator.
func (f *Follower) keepPause(p Paused, out *Followed) {
	if p.Seq > f.pause.Seq {
		f.pause = p.Pause
	}
	out.Send = append(out.Send, PauseKept{p.Term, f.pause.Seq})
}

// keep keeps pins for the next coordinator.
func (f *Follower) keep(p KeepPins, out *Followed) {
	if p.Seq > f.pins[p.Type].Seq {
		if f.pins == nil {
			f.pins = map[string]Pins{}
		}
		f.pins[p.Type] = p.Pins
	}
	out.Send = append(out.Send, PinsKept{p.Term, p.Type, f.pins[p.Type].Seq})
}

// Step takes a message that came from a coordinator, or nil when only time has
// passed. Every message from a coordinator goes through Step first, also those
// about moves: unless the result is Refused they then go to the shard.
func (f *Follower) Step(now time.Time, from transport.Address, m Message) Followed {
	var out Followed
	if m != nil {
		term := m.term()
		switch term.Compare(f.term) {
		case -1:
			return Followed{Refused: true, Coordinator: f.coordinator, WakeAt: f.wakeAt()}
		case 1:
			// From here on the promise holds: Register is made after it.
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
		// Members that are new to the coordinator get its status: a Register that came
		// before the node was a member was refused, and is sent again at once.
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

// behind reports whether there is a later table than f's.
func (f *Follower) behind() bool {
	return f.latest.Seq > 0 && f.latest.Compare(f.table.Version()) > 0
}

func (f *Follower) mustRegister() bool {
	return f.hosts && !f.registered && f.term != (placement.Term{})
}

// collect applies a difference once all its parts are there. One that does not
// fit is dropped: the request that follows brings one that does.
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

// request asks for the latest table when f has an older one.
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

package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Message travels between the coordinator and the processes of the cluster,
// on the control channel, which may lose, repeat and reorder. Every message is
// idempotent and sent again until its effect shows.
type Message interface {
	// term is the coordinator's term that the message belongs to. A node that promised a
	// higher term refuses it. It is zero for messages that any coordinator may answer.
	term() placement.Term
}

// maxTypeBytes bounds the name of a type on the wire.
const maxTypeBytes = 256

// A KindInfo is a node's description of one entity type.
type TypeInfo struct {
	Name     string
	Package  string // import path of the struct
	Shards   uint32 // a power of two
	HashName string
	Hosts    bool // the node can host it; false: it only calls it
	Tuning
}

// MaxTuning bounds the numbers of a [Tuning].
const MaxTuning = 1 << 20

// Tuning has the operators' settings for the placement of one type. Members may differ
// while a change is rolled out: the last registration counts.
type Tuning struct {
	Allocation string // name of the strategy; "" means the coordinator's default
	MaxMoves   uint32 // moves for balance at once; 0 means the coordinator's default
	MinHosts   uint32 // members that host it before it is first allocated; 0 means one
}

// A HeldState is how far a shard is at the node that reports it.
type HeldState uint8

// The states of a shard at a node. Active to Forwarding are the old home's,
// Preparing and Prepared the new one's.
const (
	// Active: calls run here, and no move has begun.
	Active HeldState = iota + 1
	// Draining: a move has begun. No more turns start and running ones end, or will
	// when barriers have opened or the new home is ready.
	Draining
	// Sent: the state went out with Init, and no answer has come.
	Sent
	// Forwarding: Ready came and Open went out. From here on the shard lives at
	// the new home, or is lost with it.
	Forwarding
	// Preparing: Init has begun to arrive, and Ready did not go out.
	Preparing
	// Prepared: Ready went out, and nothing runs until Open comes or the
	// coordinator says that this node is the home.
	Prepared
)

// String names the state.
func (s HeldState) String() string {
	switch s {
	case Active:
		return "active"
	case Draining:
		return "draining"
	case Sent:
		return "sent"
	case Forwarding:
		return "forwarding"
	case Preparing:
		return "preparing"
	case Prepared:
		return "prepared"
	}
	return "unknown"
}

// target reports whether the state is one of a new home that is not open yet.
func (s HeldState) target() bool { return s == Preparing || s == Prepared }

// A HeldShard is one shard as a node reports it in [Register].
type HeldShard struct {
	placement.ShardID
	State HeldState
	// Epoch is the one under which the node is the shard's home, or was before
	// the move began. 0 for Preparing and Prepared, and it may be 0 for Forwarding.
	Epoch placement.Epoch
	// Move is the epoch of the move that the shard is in, as MoveBegin or Init
	// named it, and Peer its other side. Both are zero for Active.
	Move placement.Epoch
	Peer transport.Address
}

// Register is sent by a member to a coordinator of a higher term than it knew, and again
// when its types change, every 500 ms until [Registered] arrives. By sending it the node
// promises to refuse everything of a lower term from then on; so the promise comes first,
// and Shards is read after it.
//
// Members that host nothing need not register.
type Register struct {
	Term   placement.Term
	Node   transport.Address
	Seq    uint64 // grows with each change of the content; from 1
	Types  []TypeInfo
	Shards []HeldShard
	Pins   []Pins // the pins that it keeps, one for each type that has any
	Pause  Pause  // that it keeps
}

// Registered answers [Register], with the Seq that it carried.
type Registered struct {
	Term placement.Term
	Seq  uint64
}

// TableStatus says which table is the current one: to every member, every second and at
// once when the coordinator starts. A process with an older one asks with [TableRequest];
// a member that has not registered with this term does so.
type TableStatus struct {
	Version placement.Version
}

// TableRequest asks the coordinator for the changes since Have.
type TableRequest struct {
	Have placement.Version
}

// Table is one part of a difference, or of a whole table. All parts of one difference
// have the same From, To and Full, and only together are they applied ([Follower] does
// so). It is an order: a node that finds itself the home of a shard under a new epoch opens
// it with the state that it had prepared for a lower epoch of this shard, or goes on with
// its own (a move that was cancelled), or starts empty. But a shard that it has given
// away under a higher epoch since it registered stays away, as MoveDone will report. A
// node that finds another home, under a higher epoch than its own, gives up the shard,
// prepared or active, unless it is forwarding to that home: then it goes on forwarding.
type Table struct {
	placement.Diff
	Part, Parts uint32 // 0 to Parts-1
}

// Ask tells the coordinator that calls wait for a shard of a type without a
// home. It is sent every 500 ms until the table shows one. The whole type is
// allocated at once.
type Ask struct {
	Type string
	Have placement.Version // the asker's table, for it may only be late
}

// NoHome answers [Ask] when no home can be given yet. Calls go on waiting;
// Reason is the text of their error when their time is over.
type NoHome struct {
	Term   placement.Term
	Type   string
	Reason string
}

// MoveBegin tells the old home to give a shard away. It is sent every 500 ms
// while the move lasts; each is answered by [MoveStatus]. The old home ignores
// it unless it is the home under From: then it has not seen the table yet.
type MoveBegin struct {
	Term placement.Term
	placement.ShardID
	To    transport.Address
	From  placement.Epoch // under which the old home has it
	Epoch placement.Epoch // of the move, and of the new home when it opens
}

// MoveStatus is the old home's answer to [MoveBegin], and to [MoveCancel] when
// Open has gone out already (Forwarding).
type MoveStatus struct {
	Term placement.Term
	placement.ShardID
	Epoch placement.Epoch // of the move
	State HeldState
}

// MoveDone is the new home's word that it is open. It is sent every 500 ms
// until the table shows the shard under this epoch or a higher one.
type MoveDone struct {
	Term placement.Term
	placement.ShardID
	Epoch placement.Epoch
}

// MoveAborted is the old home's word that it gives the move up: a turn outlasts
// the bound, or the new home does not answer. It is a promise never to send
// Open for this epoch, so it cannot follow Ready. It is sent every 500 ms until
// the table shows the shard under a higher epoch; until then the shard runs
// nowhere and calls wait.
type MoveAborted struct {
	Term placement.Term
	placement.ShardID
	Epoch  placement.Epoch
	Reason string
}

// MoveCancel asks one side of a move whose other side gave up or is gone to end
// it, every 500 ms until it answers or is removed.
//
// The new home answers [MoveCancelled] when it was not open: it dropped the prepared
// shard and refuses Init and Open of this epoch for good. It answers [MoveDone] when it
// is open.
//
// The old home answers [MoveCancelled] when it has not sent Open and never will
// for this epoch, or MoveStatus with Forwarding when it has. It does not resume
// before the table says so.
type MoveCancel struct {
	Term placement.Term
	placement.ShardID
	Epoch placement.Epoch
}

// MoveCancelled answers [MoveCancel]. A node that never heard of the move answers the
// same, and remembers it.
type MoveCancelled struct {
	Term placement.Term
	placement.ShardID
	Epoch placement.Epoch
}

// A Pin names the node at which a shard should be.
type Pin struct {
	Shard uint32
	Node  string // "": anywhere, as the strategy says
}

// Pins are all pins of the shards of one type. Every registered member keeps the latest,
// so that they outlive the coordinator.
type Pins struct {
	Type string
	Seq  placement.Epoch // of the latest change: the coordinator's term and a counter
	Pins []Pin           // in order of shard, none for anywhere
}

// SetPins asks to change pins, from any member, every 500 ms until [PinsSet]
// comes. ID tells requests of one asker apart.
type SetPins struct {
	ID   uint64
	Type string
	Pins []Pin
}

// PinsSet answers [SetPins]: every member that hosts types keeps the pins, or they
// were refused for a reason.
type PinsSet struct {
	Term   placement.Term
	ID     uint64
	Reason string
}

// KeepPins tells a member which pins to keep, every 500 ms until [PinsKept].
type KeepPins struct {
	Term placement.Term
	Pins
}

// PinsKept answers [KeepPins].
type PinsKept struct {
	Term placement.Term
	Type string
	Seq  placement.Epoch
}

// Explain asks where a shard is and why, for people. Anybody may ask.
type Explain struct {
	ID uint64 // tells questions of one asker apart
	placement.ShardID
}

// Explained answers [Explain].
type Explained struct {
	Term placement.Term
	ID   uint64
	Text string
	// Since is when the shard got the home that it has; zero means before the term, or it has none.
	Since time.Time
}

// Inspect asks a member for a description of its shards, for people.
type Inspect struct {
	ID   uint64 // tells questions of one asker apart
	Type string // "": all types
}

// Inspected answers [Inspect]: the shards that the member holds, in order.
type Inspected struct {
	ID     uint64
	Shards []InspectedShard
}

// An InspectedShard is one shard as the member that holds it sees it.
type InspectedShard struct {
	placement.ShardID
	State    HeldState
	Entities uint32 // active and passivated
	Active   uint32 // with a value
	Waiting  uint32 // calls that wait for the shard
}

func (m Register) term() placement.Term      { return m.Term }
func (m Registered) term() placement.Term    { return m.Term }
func (m TableStatus) term() placement.Term   { return m.Version.Term }
func (m Table) term() placement.Term         { return m.To.Term }
func (m NoHome) term() placement.Term        { return m.Term }
func (m MoveBegin) term() placement.Term     { return m.Term }
func (m MoveStatus) term() placement.Term    { return m.Term }
func (m MoveDone) term() placement.Term      { return m.Term }
func (m MoveAborted) term() placement.Term   { return m.Term }
func (m MoveCancel) term() placement.Term    { return m.Term }
func (m MoveCancelled) term() placement.Term { return m.Term }
func (m PinsSet) term() placement.Term       { return m.Term }
func (m KeepPins) term() placement.Term      { return m.Term }
func (m PinsKept) term() placement.Term      { return m.Term }
func (m Balanced) term() placement.Term      { return m.Term }
func (m Paused) term() placement.Term        { return m.Term }
func (m PauseKept) term() placement.Term     { return m.Term }
func (m Explained) term() placement.Term     { return m.Term }

func (Explain) term() placement.Term      { return placement.Term{} }
func (Inspect) term() placement.Term      { return placement.Term{} }
func (Inspected) term() placement.Term    { return placement.Term{} }
func (SetPins) term() placement.Term      { return placement.Term{} }
func (TableRequest) term() placement.Term { return placement.Term{} }
func (Ask) term() placement.Term          { return placement.Term{} }
func (Balance) term() placement.Term      { return placement.Term{} }

// sound reports whether the fields of a node's claim go together.
func (o HeldShard) sound(node transport.Address) bool {
	switch {
	case o.State == Active:
		return o.Epoch > 0 && o.Move == 0
	case o.Peer.IsZero() || o.Peer == node || o.Move == 0:
		return false
	case o.State.target():
		return o.Epoch == 0
	case o.State == Forwarding:
		return o.Epoch < o.Move
	}
	return (o.State == Draining || o.State == Sent) && o.Epoch > 0 && o.Epoch < o.Move
}

// change applies pins to those there are.
func (p *Pins) change(kind string, changes []Pin) {
	p.Type = kind
	all := slices.Clone(p.Pins)
	for _, pin := range changes {
		i, found := slices.BinarySearchFunc(all, pin.Shard, func(o Pin, n uint32) int { return cmp.Compare(o.Shard, n) })
		switch {
		case found && pin.Node == "":
			all = slices.Delete(all, i, i+1)
		case found:
			all[i] = pin
		case pin.Node != "":
			all = slices.Insert(all, i, pin)
		}
	}
	p.Pins = all
}

// at is the node that the shard should live at; "" if it is not pinned.
func (p *Pins) at(shard uint32) string {
	i, found := slices.BinarySearchFunc(p.Pins, shard, func(o Pin, n uint32) int { return cmp.Compare(o.Shard, n) })
	if !found {
		return ""
	}
	return p.Pins[i].Node
}

// nameOf is a message's type for people.
func nameOf(m Message) string { return strings.TrimPrefix(fmt.Sprintf("%T", m), "coordinator.") }

// A Pause says whether rebalancing is paused. Every member keeps the latest, so that it outlives
// the coordinator.
type Pause struct {
	Seq placement.Epoch // of the latest change: the coordinator's term and a counter; 0 means nobody ever paused
	On  bool
	By  string    // the operator who changed it last
	At  time.Time // of that change, by the coordinator's clock
}

// String is the pause for people.
func (p Pause) String() string {
	if !p.On {
		return "rebalancing is not paused"
	}
	return fmt.Sprintf("rebalancing is paused by %s since %s", p.By, p.At.UTC().Format(time.RFC3339))
}

// A Wanted is what a [Balance] asks for.
type Wanted uint8

// The requests about rebalancing.
const (
	// WantPause stops moves for balance. Those under way end, and so do moves away from members that
	// leave, moves by pins, and the allocation of shards without a home.
	WantPause Wanted = iota + 1
	// WantResume ends a pause.
	WantResume
	// WantNow has the coordinator look at once which shards should move, also at those whose moves
	// were given up a moment ago.
	WantNow
)

// Known reports whether this version knows the request.
func (w Wanted) Known() bool { return WantPause <= w && w <= WantNow }

// Balance asks to pause rebalancing, to resume it, or to rebalance now, from any member, every
// 500 ms until [Balanced] comes. ID tells requests of one asker apart.
type Balance struct {
	ID   uint64
	Want Wanted
	By   string // the operator
}

// Balanced answers [Balance]: it was refused for a reason, or is done. A pause and its end are done
// when every registered member keeps them.
type Balanced struct {
	Term    placement.Term
	ID      uint64
	Refusal string // "": it is done
	Text    string // the result, for people
}

// Paused tells a member which pause to keep, every 500 ms until [PauseKept].
type Paused struct {
	Term placement.Term
	Pause
}

// PauseKept answers [Paused].
type PauseKept struct {
	Term placement.Term
	Seq  placement.Epoch
}

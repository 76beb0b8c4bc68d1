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

// A Message travels between the coordinator and the processes of the cluster on the control
// channel, which may lose, repeat and reorder messages. Every message is therefore idempotent and,
// except for loads, repeated until its effect is seen.
type Message interface {
	// term is the term of the message's coordinator. A node that promised a higher term refuses the
	// message. It is zero for messages that any coordinator may answer.
	term() placement.Term
}

// maxTypeBytes bounds a type's name, in bytes.
const maxTypeBytes = 256

// A TypeInfo is a node's description of one entity type.
type TypeInfo struct {
	Name     string
	Package  string // import path of the struct
	Shards   uint32 // a power of two
	HashName string
	Hosts    bool // the node hosts the type; false: it only calls it
	Tuning
}

// MaxTuning bounds each number of a [Tuning].
const MaxTuning = 1 << 20

// Tuning holds the users' settings for the placement of one type. Members may differ during a
// rollout: the last registration counts.
type Tuning struct {
	Allocation string // name of the strategy; "" means the coordinator's default
	MaxMoves   uint32 // rebalancing moves at once; 0 means the coordinator's default
	MinHosts   uint32 // hosting members required for the first allocation; 0 means one
	Pool       Pool
}

// A HeldState is the stage of a move that a shard has reached at the reporting node.
type HeldState uint8

// The states of a shard at a node. Active to Forwarding are states at the old home, Preparing and
// Prepared at the new one.
const (
	// Active: calls run here, and no move has begun.
	Active HeldState = iota + 1
	// Draining: a move has begun. No turns start. Running turns end, some only when barriers have
	// opened or the new home is ready.
	Draining
	// Sent: Init was sent with the state, and Ready has not come.
	Sent
	// Forwarding: Ready has come and Open was sent. From now on the shard lives at the new home, or
	// is lost with it.
	Forwarding
	// Preparing: Init has begun to arrive, and Ready was not sent.
	Preparing
	// Prepared: Ready was sent. No turn runs until Open comes or the coordinator says that this
	// node is the home.
	Prepared
)

// String returns the name of the state.
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

func (s HeldState) target() bool { return s == Preparing || s == Prepared }

// A HeldShard is one shard as a node reports it in [Register].
type HeldShard struct {
	placement.ShardID
	State HeldState
	// Epoch is the epoch under which the node is the shard's home, or was the home before the move.
	// It is 0 for Preparing and Prepared, and may be 0 for Forwarding.
	Epoch placement.Epoch
	// Move is the epoch of the shard's move, from MoveBegin or Init, and Peer is the other node of
	// the move. Both are zero for Active.
	Move placement.Epoch
	Peer transport.Address
}

// A member sends Register to a coordinator of a newly known term, and when the member's types
// change. It repeats the message every 500 ms until [Registered] arrives. Register is a promise to
// refuse messages of lower terms, so the member must begin to refuse them before it collects
// Shards.
//
// Members that host nothing need not register.
type Register struct {
	Term   placement.Term
	Node   transport.Address
	Seq    uint64 // grows with each change of the content; from 1
	Types  []TypeInfo
	Shards []HeldShard
	Pins   []Pins // the pins that the member keeps; one element for each type that has pins
	Pause  Pause  // that the member keeps
	// Capacity is the thousandths of a processor that the member may use, at most MaxCapacity; 0
	// means unknown. Zone is the member's zone, or "".
	Capacity uint32
	Zone     string
}

// Registered answers [Register] with the same Seq.
type Registered struct {
	Term placement.Term
	Seq  uint64
}

// TableStatus announces the version of the current table to every member, every second and as soon
// as the coordinator starts. A process with an older table sends [TableRequest]. A member that has
// not registered in this term sends [Register].
type TableStatus struct {
	Version placement.Version
}

// TableRequest asks the coordinator for the changes since Have.
type TableRequest struct {
	Have placement.Version
}

// Table is one part of a difference, or of a whole table. All parts of one difference have the same
// From, To and Full, and are applied only together ([Follower] does so).
//
// A node obeys the table. If the table names the node as a shard's home under a new epoch, the node
// opens the shard: with the state prepared for a lower epoch, with its own state (after a cancelled
// move), or empty. There is one exception: since it registered, the node has given the shard away
// under a higher epoch. Then MoveDone will report that move. If the table names another home under
// a higher epoch than the node's own, the node gives the shard up, prepared or active. A node that
// is forwarding to that home goes on forwarding.
type Table struct {
	placement.Diff
	Part, Parts uint32 // 0 to Parts-1
}

// Ask tells the coordinator that calls wait for a type whose shard has no home. It is sent every
// 500 ms until the table shows a home. The coordinator allocates all shards of the type at once.
type Ask struct {
	Type string
	Have placement.Version // the asker's table, which may be old
}

// NoHome answers [Ask] if no home can be assigned yet. The calls go on waiting. The error of a call
// that times out contains Reason.
type NoHome struct {
	Term   placement.Term
	Type   string
	Reason string
}

// MoveBegin asks the old home to give a shard away, or to end the shard if To is zero. The
// coordinator sends it every 500 ms while the move lasts, and the old home answers each with
// [MoveStatus]. A node that is not the home under epoch From does not begin the move, because the
// table of that node is old.
type MoveBegin struct {
	Term placement.Term
	placement.ShardID
	To    transport.Address
	From  placement.Epoch // of the old home's present tenure
	Epoch placement.Epoch // of the move, and of the new home when it opens
}

// MoveStatus is the old home's answer to [MoveBegin], and to [MoveCancel] if Open was already sent
// (Forwarding).
type MoveStatus struct {
	Term placement.Term
	placement.ShardID
	Epoch placement.Epoch // of the move
	State HeldState
}

// MoveDone says that the new home is open. The new home sends it every 500 ms until the table shows
// the shard under this epoch or a higher one. In a move without a new home, the old home sends
// MoveDone when the shard has ended.
type MoveDone struct {
	Term placement.Term
	placement.ShardID
	Epoch placement.Epoch
}

// MoveAborted says that the old home gives the move up, because a turn lasts longer than the bound
// or the new home does not answer. With it the old home promises never to send Open for this epoch,
// so it must not send MoveAborted after it has received Ready. It sends MoveAborted every 500 ms
// until the table shows the shard under a higher epoch. Until then the shard runs nowhere and its
// calls wait.
type MoveAborted struct {
	Term placement.Term
	placement.ShardID
	Epoch  placement.Epoch
	Reason string
}

// MoveCancel asks the old or the new home to end the move, because the other of the two gave up or
// is gone. The coordinator sends it every 500 ms until the asked home answers or is removed.
//
// A new home that is not open answers [MoveCancelled]: it has dropped the prepared shard and
// refuses Init and Open of this epoch for good. A new home that is open answers [MoveDone].
//
// An old home that has not sent Open answers [MoveCancelled], and never sends Open for this epoch.
// An old home that has sent Open answers MoveStatus with Forwarding. The old home does not resume
// before the table names it as home again.
type MoveCancel struct {
	Term placement.Term
	placement.ShardID
	Epoch placement.Epoch
}

// MoveCancelled answers [MoveCancel]. A node that does not know the move gives the same answer, and
// remembers the cancellation.
type MoveCancelled struct {
	Term placement.Term
	placement.ShardID
	Epoch placement.Epoch
}

// A Pin names the node that should be a shard's home.
type Pin struct {
	Shard uint32
	Node  string // "": anywhere, as the strategy says
}

// Pins holds all pins of one type's shards. Every registered member keeps the latest Pins, so that
// they are known after the coordinator has ended.
type Pins struct {
	Type string
	Seq  placement.Epoch // of the latest change: the coordinator's term and a counter
	Pins []Pin           // in order of shard; shards without a pin are left out
	// Count is the number of instances of a pool that operators ask for, in place of the number
	// that its load needs; 0: not set.
	Count uint32
}

// SetPins is sent by any member to change pins, every 500 ms until [PinsSet] comes. ID
// distinguishes the requests of one member.
type SetPins struct {
	ID    uint64
	Type  string
	Pins  []Pin
	Count *uint32 // of a pool; nil leaves it as it is
	Once  bool    // move the shards there now, without changing pins
}

// PinsSet answers [SetPins]: either every member that hosts types keeps the pins, or the moves have
// begun, or the request was refused for the given reason.
type PinsSet struct {
	Term   placement.Term
	ID     uint64
	Reason string
}

// KeepPins is sent to a member that must keep pins, every 500 ms until [PinsKept] comes.
type KeepPins struct {
	Term placement.Term
	Pins
}

// PinsKept answers [KeepPins]: the member keeps the pins.
type PinsKept struct {
	Term placement.Term
	Type string
	Seq  placement.Epoch
}

// Explain asks, for operators, where a shard is and why. Any process may send Explain.
type Explain struct {
	ID uint64 // tells questions of one asker apart
	placement.ShardID
}

// Explained answers [Explain].
type Explained struct {
	Term placement.Term
	ID   uint64
	Text string
	// Since is when the shard got its present home. It is zero if that was before this term, or if
	// the shard has no home.
	Since time.Time
}

// Inspect asks a member to describe its shards, for operators.
type Inspect struct {
	ID   uint64 // tells questions of one asker apart
	Type string // "": all types
}

// Inspected answers [Inspect] with the shards that the member holds, in order.
type Inspected struct {
	ID     uint64
	Shards []InspectedShard
}

// An InspectedShard describes one shard, as the member that holds it sees it.
type InspectedShard struct {
	placement.ShardID
	State    HeldState
	Entities uint32 // active and passivated
	Active   uint32 // number of these with a value in memory
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
func (PoolLoad) term() placement.Term     { return placement.Term{} }
func (MemberLoad) term() placement.Term   { return placement.Term{} }
func (Inspect) term() placement.Term      { return placement.Term{} }
func (Inspected) term() placement.Term    { return placement.Term{} }
func (SetPins) term() placement.Term      { return placement.Term{} }
func (TableRequest) term() placement.Term { return placement.Term{} }
func (Ask) term() placement.Term          { return placement.Term{} }
func (Balance) term() placement.Term      { return placement.Term{} }

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

// at returns the node to which the shard is pinned, or "".
func (p *Pins) at(shard uint32) string {
	i, found := slices.BinarySearchFunc(p.Pins, shard, func(o Pin, n uint32) int { return cmp.Compare(o.Shard, n) })
	if !found {
		return ""
	}
	return p.Pins[i].Node
}

func nameOf(m Message) string { return strings.TrimPrefix(fmt.Sprintf("%T", m), "coordinator.") }

// A Pause says whether rebalancing is paused. Every member keeps the latest Pause, so that it
// outlives the coordinator.
type Pause struct {
	Seq placement.Epoch // of the latest change: the coordinator's term and a counter; 0: never paused
	On  bool
	By  string    // the operator who changed it
	At  time.Time // of the change, by the coordinator's clock
}

// String describes the pause for people.
func (p Pause) String() string {
	if !p.On {
		return "rebalancing is not paused"
	}
	return fmt.Sprintf("rebalancing is paused by %s since %s", p.By, p.At.UTC().Format(time.RFC3339))
}

// A Wanted is what a [Balance] requests.
type Wanted uint8

// The requests about rebalancing.
const (
	// WantPause stops rebalancing. Moves under way go on, and so do moves away from leaving
	// members, moves by pins, and the allocation of shards without a home.
	WantPause Wanted = iota + 1
	// WantResume ends a pause.
	WantResume
	// WantNow makes the coordinator plan moves at once, even of shards whose moves just failed.
	WantNow
)

// Known reports whether this version knows the request.
func (w Wanted) Known() bool { return WantPause <= w && w <= WantNow }

// Balance is sent by any member to pause or resume rebalancing, or to rebalance now, every 500 ms
// until [Balanced] comes. ID distinguishes the requests of one member.
type Balance struct {
	ID   uint64
	Want Wanted
	By   string // the operator
}

// Balanced answers [Balance]: the request was refused for the given reason, or is done. A pause, or
// its end, is done when every registered member has confirmed.
type Balanced struct {
	Term    placement.Term
	ID      uint64
	Refusal string // "": it is done
	Text    string // the result, for people
}

// Paused gives a member the latest Pause to keep. This Pause may also say that rebalancing goes on
// again. The coordinator sends Paused every 500 ms until [PauseKept] comes.
type Paused struct {
	Term placement.Term
	Pause
}

// PauseKept answers [Paused]: the member keeps the pause.
type PauseKept struct {
	Term placement.Term
	Seq  placement.Epoch
}

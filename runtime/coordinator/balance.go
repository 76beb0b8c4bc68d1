package coordinator

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
)

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

func (Balance) message()   {}
func (Balanced) message()  {}
func (Paused) message()    {}
func (PauseKept) message() {}

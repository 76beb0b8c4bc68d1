package singleton

import "fmt"

// A State is where a manager stands.
type State uint8

// The states of a manager.
const (
	// Start: this node is not Up yet.
	Start State = iota + 1
	// Younger: another member is the oldest.
	Younger
	// BecomingOldest: this node is the oldest and waits until all older ones have
	// confirmed that they run nothing, or are removed.
	BecomingOldest
	// AcquiringLease: this node is the oldest and alone, and asks for the lease.
	AcquiringLease
	// Oldest: the instance runs here, or pauses before a restart.
	Oldest
	// LosingLease: the lease is lost and the instance is stopping; then the lease
	// is asked for anew.
	LosingLease
	// WasOldest: the instance runs here, this node leaves, and the new oldest has
	// yet to ask for it.
	WasOldest
	// HandingOver: the instance is stopping, then the lease is given back.
	HandingOver
	// End: nothing runs here, and nothing ever will.
	End
)

var stateNames = [...]string{
	Start: "start", Younger: "younger", BecomingOldest: "becoming oldest", AcquiringLease: "acquiring lease",
	Oldest: "oldest", LosingLease: "losing lease", WasOldest: "was oldest", HandingOver: "handing over", End: "end",
}

// String names the state.
func (s State) String() string {
	if int(s) < len(stateNames) && stateNames[s] != "" {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// changes is the table of legal changes of state. BecomingOldest → Younger does
// not occur: age does not change, and a member that is the oldest stays so until
// it leaves.
var changes = map[State][]State{
	Start:          {Younger, BecomingOldest, AcquiringLease, Oldest, End},
	Younger:        {BecomingOldest, AcquiringLease, Oldest, End},
	BecomingOldest: {AcquiringLease, Oldest, End},
	AcquiringLease: {Oldest, End},
	Oldest:         {WasOldest, LosingLease, HandingOver},
	LosingLease:    {AcquiringLease, HandingOver},
	WasOldest:      {HandingOver},
	HandingOver:    {End},
}

package singleton

import "fmt"

// A State is the state of a [Manager].
type State uint8

// The states of a manager.
const (
	// Start means that this node is not Up yet.
	Start State = iota + 1
	// Younger means that another member is the oldest.
	Younger
	// BecomingOldest means that this node is the oldest and waits until each older member has
	// confirmed its instance's end or is removed.
	BecomingOldest
	// AcquiringLease means that this node is the oldest, no older member is left,
	// and it asks for the lease.
	AcquiringLease
	// Oldest means that the instance runs here, or pauses before a restart.
	Oldest
	// LosingLease means that the lease is lost and the instance is stopping. Afterwards the manager
	// asks for the lease again.
	LosingLease
	// WasOldest means that the instance runs here, this node leaves, and the new oldest has not yet
	// asked for the instance.
	WasOldest
	// Relaying means that this node leaves before its instance has begun, but an older member may
	// have handed state over. It waits for the confirmations of the older members. If state
	// arrives, it passes the state on to the next oldest without starting an instance.
	Relaying
	// HandingOver means that the instance is stopping. Afterwards the lease is released.
	HandingOver
	// End means that no instance runs here and none will be started.
	End
)

var stateNames = [...]string{
	Start: "start", Younger: "younger", BecomingOldest: "becoming oldest", AcquiringLease: "acquiring lease",
	Oldest: "oldest", LosingLease: "losing lease", WasOldest: "was oldest",
	Relaying: "relaying", HandingOver: "handing off", End: "end",
}

// String returns the name of the state.
func (s State) String() string {
	if int(s) < len(stateNames) && stateNames[s] != "" {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// changes maps each state to the next ones. Younger never follows BecomingOldest: ages are fixed.
var changes = map[State][]State{
	Start:          {Younger, BecomingOldest, AcquiringLease, Oldest, End},
	Younger:        {BecomingOldest, AcquiringLease, Oldest, End},
	BecomingOldest: {AcquiringLease, Oldest, Relaying, End},
	AcquiringLease: {Oldest, Relaying, End},
	Oldest:         {WasOldest, LosingLease, HandingOver},
	LosingLease:    {AcquiringLease, HandingOver},
	WasOldest:      {HandingOver},
	Relaying:       {HandingOver, End},
	HandingOver:    {End},
}

package node

import "time"

// The kinds of events that a node reports about itself.
const (
	Up    = "up"    // it has joined
	Left  = "left"  // it has left in order
	Ended = "ended" // it ended otherwise
	Saw   = "saw"   // it saw a change of the cluster: Kind, Member and Time say which
	// Agreed means that it saw that all members agree on View from then on, or that they do
	// not agree any more.
	Agreed = "agreed"
	// Shifted means that its clock was changed by ShiftClock.
	Shifted = "shifted"
	// Counted is the answer to CountFrames.
	Counted = "counted"
	// Refused means that it was given a line that is no command.
	Refused = "refused"
	// Spinning means that it is no node, and begins to compute now.
	Spinning = "spinning"
)

// An Event is one line of a node's output.
type Event struct {
	Event  string    `json:"event"`
	Node   string    `json:"node"`
	Pid    int       `json:"pid"`
	Error  string    `json:"error,omitempty"`
	Kind   string    `json:"kind,omitempty"`   // a shard.EventKind
	Member string    `json:"member,omitempty"` // the name of the member that the event is about
	Time   time.Time `json:"time,omitzero"`    // when the node saw it
	// View is the cluster as the node saw it then, if all agreed: its founder and its
	// members. "" if they did not.
	View string `json:"view,omitempty"`
	// Question is the number of a question, and Frames and Direct its answer.
	Question int    `json:"question,omitempty"`
	Frames   uint64 `json:"frames,omitempty"` // data frames that the node has sent
	Direct   uint64 `json:"direct,omitempty"` // those of them that took direct lanes
}

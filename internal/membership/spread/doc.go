// Package spread brings changes of the gossiped state to all members.
//
// In a small cluster the node that makes a version pushes it to all, each tells the
// leader that it has seen it, and the leader tells all that it converged: see [Spreader].
// In a large one the leader broadcasts, see [Broadcaster]. Rounds of gossip repair lost
// messages. Received states are checked, merged, and answered if the sender lacks
// something.
//
// The package knows lease (whose collectors stand in for a silent leader), core, message
// and gossip.
package spread

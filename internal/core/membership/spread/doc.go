// Package spread brings changes of the gossiped state to all members.
//
// In a small cluster the author of a version sends it to all, each receiver acknowledges it to the
// leader, and the leader announces the convergence to all: see [Spreader]. In a large one the
// leader broadcasts, see [Broadcaster]. Rounds of gossip repair lost messages. Received states are
// checked, merged, and answered if the sender lacks something.
//
// The package knows lease (whose collectors stand in for a silent leader), core, message
// and gossip.
package spread

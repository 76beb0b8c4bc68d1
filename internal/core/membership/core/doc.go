// Package core is the part of a membership machine that its other parts share.
//
// A [Base] holds the settings, the time of the step, the view, and the output of the step, which
// its methods Send, Broadcast, Emit and WakeAt collect. Machines of both kinds have one. A [Node]
// adds the gossiped state with the conclusions from it. Every other part of gossip (packages
// detector, lease, downing, spread and join) embeds the node, changes the state only by
// [Node.Change], and holds references to the parts below it. This package knows none of those
// parts.
//
// The package also defines the machine's interface, which runtime/membership exports: [Config], the
// inputs, [Output], the events and [View].
package core

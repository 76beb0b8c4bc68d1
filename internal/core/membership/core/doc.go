// Package core is the part of a membership machine that its other parts share.
//
// A [Node] holds the settings, the time of the step, the gossiped state with the conclusions from
// it, and the output of the step, which its methods Send, Broadcast, Emit and WakeAt collect. Every
// other part (packages detector, lease, downing, spread and join) embeds the node, changes the
// state only by [Node.Change], and holds references to the parts below it. This package knows none
// of those parts.
//
// The package also defines the machine's interface, which runtime/membership exports: [Config], the
// inputs, [Output], the events and [View].
package core

// Package core is the part of a membership machine that its other parts share.
//
// A [Node] holds the settings, the time of the step, the gossiped state with the
// conclusions from it, and the output of the step, which its methods Send, Broadcast,
// Emit and WakeAt collect. Every other part (packages detector, lease, downing, spread
// and join) embeds the node, changes the state by [Node.Change] alone, and holds
// references to the parts below it. Nothing here knows those parts.
//
// The package also defines the machine's surface, which runtime/membership names again:
// [Config], the inputs, [Output], the events and [View].
package core

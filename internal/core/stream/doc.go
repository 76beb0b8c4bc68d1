// Package stream is the sending side of calls, without I/O: it delivers envelopes to another
// process once, in order, and with a known outcome when that fails.
//
// A [Session] makes a reliable, ordered stream of envelopes out of a broker that promises at most
// once. There is one at each end for each (own incarnation, peer's incarnation, lane), and it
// carries both directions. Sequence numbers start at 1 and never start again. The sender keeps
// every envelope until the peer's cumulative acknowledgement, a gap is answered with a request to
// send again, and a window bounds what is under way. The method is that of TCP, over messages.
//
// An acknowledged envelope was handled: its turn has begun, or it waits in a queue of the home,
// or its refusal is earlier in the same stream. So a process that sees an
// acknowledgement has seen all refusals below it.
//
// A [Route] is one shard as one sender sees it: known, or stopped while its home changes. It keeps
// the order per (sender, entity) over a change of home. Two cases are easily missed:
//
//   - The new home departs before anything was sent to it, but calls had gone to the home before it
//     and may have been forwarded. The route remembers that former home and its epoch, and flushes
//     by way of it when the next home is known. If the former home has departed too, the route
//     sends the barrier alone, which opens where the departure is known.
//   - A node follows the table before it is a member, so its routes may lead to a home that was
//     removed before the node joined. The node never hears of that removal, and the route would
//     wait for an acknowledgement without end. An Up member therefore treats every home missing in
//     its view as departed: at each change of the view, and when a frame to such a process bounces.
//     That is safe because only Up members have shards, and no node becomes Up before all Up
//     members have seen that node.
//
// Nothing here locks, reads a clock or starts a goroutine. Package peers drives a Session, and
// package routing a Route.
package stream

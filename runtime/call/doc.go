// Package call is a sender's side of calls, without I/O: how envelopes reach
// another process once, in order, and with a known outcome when they do not.
//
// A [Path] makes a reliable, ordered stream of envelopes out of a broker that
// promises at most once. There is one for each (own incarnation, peer's
// incarnation, lane), and it carries both directions: sequence numbers start at
// 1 and never start again, the sender keeps every envelope until the peer's
// cumulative acknowledgement, a gap is answered with a request to send again,
// and a window bounds what is under way. It is TCP's shape over messages.
//
// An acknowledgement means handled: the envelope's turn has begun, or it waits
// in a queue whose owner answers for it, or its refusal stands before the
// acknowledgement in the same stream. So whoever sees an acknowledgement has
// seen all refusals below it.
//
// A [Route] is one shard as one sender sees it: known, or stopped while its home
// changes. It keeps the order per (sender, entity) over a change of home.
//
// Nothing here locks, reads a clock or starts a goroutine; the driver in
// package shard does, and internal/sim is another driver.
package call

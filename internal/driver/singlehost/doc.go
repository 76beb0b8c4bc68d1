// Package singlehost hosts and finds the singletons of one process.
//
// A [Set] belongs to a member. The control loop gives it the view, the messages and the time. For
// each type, the Set passes these to two cores of package singleton: the Manager decides whether
// this member runs the instance, and the Proxy finds it. [Seekers] are the proxies of a process
// outside the cluster.
//
// An [Instance] is the only entity of a hosted singleton, in the only shard of its type. Besides
// the turns of calls it has two turns of its own: one to activate it before any call, and one held
// from its death to its next activation, so that calls wait. An Instance ends only after all tasks
// that it has started have ended.
//
// The package has no goroutine, clock or I/O of its own but uses those of [Process], [Home] and
// [Leases], so that internal/sim/singleton runs it in virtual time. Set, Seekers and their parts,
// such as leases, are used on one goroutine at a time. An Instance is safe for concurrent use, and
// posts its results to the control loop with [Process.Post].
package singlehost

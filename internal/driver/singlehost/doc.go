// Package singlehost hosts and finds the singletons of one process.
//
// A [Set] belongs to a member. The control loop gives it the view, the messages and the time. It
// passes them to two cores of package singleton for each type: the Manager decides whether this
// member runs the instance, and the Proxy finds it. [Seekers] are the proxies of a process that is
// no member.
//
// An [Instance] is the only entity of a hosted singleton, in the only shard of its type. It has two
// turns beside those of calls: one to activate it before any call, and one held from its death to
// its next activation, so that calls wait. It ends after the tasks that the instance has started.
//
// The package has no goroutine, clock or I/O of its own: [Process], [Home] and [Leases] have
// them, so that internal/sim/singleton runs it in virtual time. Set, Seekers and their parts,
// the lease among them, are used on one goroutine at a time. An Instance is safe for
// concurrent use, and posts its results to the control loop by [Process.Post].
package singlehost

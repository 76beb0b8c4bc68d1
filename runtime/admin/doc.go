// Package admin lets operators look at a cluster and command it, from a process that is not a
// member: list members, join, leave, down.
//
// A [Client] asks over the control channel and gets an answer for each request. A request
// that any member can answer goes to the gateway subject, from which the broker gives it to
// one member that serves. A request for one process goes to that process's subject. A name
// that no member has in its view is looked for by a broadcast. Besides the rights of a client
// of the cluster (publish to sh.<cluster>.gw.> and sh.<cluster>.n.>, subscribe to its own
// sh.<cluster>.r.<name>.>), an operator's identity needs to publish to sh.<cluster>.ctl.all,
// for join and for the list of processes that wait.
//
// A client that may publish to the control subject of a member can command it: grant
// sh.<cluster>.n.*.*.ctl as you would grant the commands.
//
// The members' side is in package shard. [Encode] and [Decode] are the wire format.
package admin

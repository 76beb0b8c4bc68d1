// Package admin is how operators look at a cluster and command it, from a
// process that is no member: who the members are, join, leave, down.
//
// A [Client] asks over the control channel and gets an answer for each request.
// What needs any member goes to the gateway, which the broker gives to one that
// serves; what is for one process goes to its own subject; who is meant by a name
// that no member's view holds is asked by a broadcast. Besides what a client of
// the cluster may do (publish to sh.<cluster>.gw.> and sh.<cluster>.n.>,
// subscribe to its own sh.<cluster>.r.<name>.>), an operator's identity needs
// to publish to sh.<cluster>.ctl.all for join and for the list of processes that
// wait.
//
// Whoever may publish to the control subject of a member can command it: grant
// sh.<cluster>.n.*.*.ctl as you would grant the command.
//
// The members' side is in package shard. [Encode] and [Decode] are the wire.
package admin

// Package shardtest runs a whole cluster inside a test: nodes, a client, the broker and the
// store, in one process and, as a rule, in virtual time, with faults that the test commands
// or a seed draws.
//
//	func TestBidSurvivesAKill(t *testing.T) {
//		shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
//			ann := auction.NewUserClient(c.Client()).Ref("ann")
//			…
//			c.Kill(c.Home("User", "ann"))
//			…
//		}, shardtest.Nodes(3), shardtest.Host(auction.Host))
//	}
//
// # Time
//
// [Run] runs the test in a bubble of testing/synctest. Time then passes only while every
// goroutine waits, and at once: a minute of a cluster takes some milliseconds. In the bubble a
// test sleeps for as long as it likes ([Cluster.Advance]). [New] alone, outside a bubble, makes
// the same cluster in real time. A cluster in real time waits as long as
// clusters wait, and its tests may use the network.
//
// In virtual time everything that the test waits for must be in the bubble: no network, no
// process, no channel made outside the test.
//
// # Seeds
//
// A seed draws the delays of messages ([Latency]), the messages that are lost, the faults of
// [Cluster.Storm], and the numbers of [Cluster.Rand]. A test that fails prints its seed; the
// environment variable SHARDTEST_SEED sets it for another run. A seed replays its faults exactly.
// The order of goroutines is not part of it: if two of them are ready at one moment, the scheduler
// decides, so a failure by such an order returns in many runs of its seed, not in each.
//
// # Faults
//
// A killed node ([Cluster.Kill]) sends and stores nothing more, as after SIGKILL. A cut
// ([Cluster.Cut]) loses messages between two nodes, as a broken link between two servers
// of a NATS cluster does; an isolated node ([Cluster.Isolate]) has lost everybody and the
// store. A pause ([Cluster.Pause]) delays all that a node sends and receives. The broker
// ([Cluster.Broker]) and the store ([Cluster.Store]) have more faults.
//
// # Entities alone
//
// Entities are structs, so most tests need no cluster: call their methods. [NewCaller] stands
// in for the cluster where an entity calls others.
package shardtest

// Package shardtest runs a whole cluster inside a test: nodes, a client, the broker and the store,
// in one process and usually in virtual time, with faults that the test sets or a seed draws.
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
// [Run] runs the test in a bubble of testing/synctest. Time then passes only while every goroutine
// waits, and passes at once: a minute of a cluster takes some milliseconds. So a test may let any
// time pass ([Cluster.Advance]). [New] outside a bubble makes the same cluster in real time; its
// tests may use the network, but wait as long as real clusters do.
//
// In virtual time everything that the test waits for must be in the bubble: no network, no process,
// no channel made outside the test.
//
// # Seeds
//
// A seed draws the delays of messages ([Latency]), the messages that are lost, the faults of
// [Cluster.Storm], and the numbers of [Cluster.Rand]. A test that fails prints its seed, and the
// environment variable SHARDTEST_SEED sets the seed of another run. The same seed gives exactly the
// same faults. But it does not determine the order of goroutines: if two are ready at the same
// moment, the scheduler decides. So a failure that depends on this order appears in many runs of
// its seed, but not in all.
//
// # Faults
//
// A killed node ([Cluster.Kill]) sends and stores nothing more, as after SIGKILL. A cut
// ([Cluster.Cut]) loses messages between two nodes, as a broken link between two servers of a NATS
// cluster does; an isolated node ([Cluster.Isolate]) reaches no process and no store. A pause
// ([Cluster.Pause]) delays all messages from and to a node. The broker ([Cluster.Broker]) and the
// store ([Cluster.Store]) have more faults.
//
// # Entities alone
//
// Entities are structs, so most tests need no cluster: call their methods. [NewCaller] replaces the
// cluster for an entity that calls other entities.
package shardtest

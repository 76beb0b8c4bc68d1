package arch

// mirrors has the pairs that TestSimulatorsMirrorNothing accepts: a simulator's function that calls
// the same functions as a driver's. The list may only shrink; maxMirrors is its length.
var mirrors = []mirror{
	{
		"internal/sim/singleton.actor.loop", "runtime.controlLoop.run",
		"the loop is a goroutine with a queue there and events here; control.Member decides when it is due",
	},
	{
		"internal/sim/sharding.member.request", "runtime.inquire",
		"an inquiry waits on a channel there; control.Member has the inquiries",
	},
	{
		"internal/sim/sharding.process.arrive", "internal/driver/node.lane.message",
		"a lane reuses one reader, frame and envelope, and can be taken over in the middle of a frame; peers.Stream decides what is skipped, dropped and acknowledged",
	},
	{
		"internal/sim/sharding.process.arrive", "internal/driver/node.lane.envelope",
		"see the pair before; wire and calls decide what may come and what becomes of it",
	},
	{
		"internal/sim/sharding.process.received", "internal/driver/node.lane.frame",
		"see process.arrive; a lane also wakes callers and publishes in batches",
	},
	{
		"internal/sim/sharding.process.deliver", "internal/driver/node.lane.call",
		"see process.arrive; shardhost decides what becomes of a call and what refuses it",
	},
	{
		"internal/sim/sharding.hosted.accept", "internal/driver/node.TurnRunner.enqueue",
		"a runner reuses calls and runs turns in batches; shardhost decides what becomes of a call",
	},
	{
		"internal/sim/sharding.route.pass", "internal/driver/node.Route.sendBy",
		"a sender there waits for room in a session or on a route, here it never has to; routing.Route decides where an envelope goes",
	},
	{
		"internal/sim/sharding.operation.wait", "internal/driver/node.invoker.waitTurn",
		"a caller is a goroutine that selects there and a continuation here; package calls decides how it goes on",
	},
	{
		"internal/sim/sharding.operation.encoded", "internal/driver/node.invoker.failed",
		"see operation.wait",
	},
	{
		"internal/sim/durable.tenure.step", "internal/driver/durablehost.Tenure.fix",
		"durablehost is concurrent by its nature: see docs/adr/0016",
	},
	{
		"internal/sim/durable.home.leave", "internal/driver/durablehost.Tenure.leave",
		"as above",
	},
}

const maxMirrors = 12

// standIns has functions of simulators for which a driver has other code, although no function is
// called by both. One of the two does by hand what the other leaves to a goroutine, a lock or the
// operating system. The list may only shrink; maxStandIns is its length.
var standIns = []mirror{
	{
		"internal/sim/sharding.process.link", "internal/driver/peers.Set.Session",
		"peers.Set is a concurrent map of sessions with locks, write coalescing and clients' expiry; the sessions in it are those that ship. Covered by internal/driver/peers and the moving tests of runtime under -race",
	},
	{
		"internal/sim/sharding.dataEnv.Close", "internal/driver/peers.Set.Remove",
		"see process.link",
	},
	{
		"internal/sim/sharding.dataEnv.Renew", "internal/driver/peers.Set.Replace",
		"see process.link",
	},
	{
		"internal/sim/sharding.process.silenced", "internal/driver/peers.Set.HasDeparted",
		"see process.link",
	},
	{
		"internal/sim/sharding.hosted.run", "internal/driver/node.InCall.execute",
		"a method of the user is a goroutine's work there and a span of virtual time here; the simulation decides nothing but how long it takes, and waits for the lease as driver.waitLease does",
	},
	{
		"internal/sim/sharding.hosted.StopEntities", "internal/driver/node.HostedShard.passivateAll",
		"stop hooks are the user's code there and a span of virtual time here; shardhost decides when each may run",
	},
	{
		"internal/sim/singleton.home.RunTask", "internal/driver/node.taskRun.run",
		"a task is a goroutine there; singlehost decides what waits for its end",
	},
	{
		"internal/sim/singleton.requests.ask", "internal/driver/node.LeaseRequests.request",
		"a request is a goroutine with a context there and two events here; singlehost.leaseHolder decides what an answer means",
	},
	{
		"internal/sim/singleton.link.Append", "internal/driver/peers.Set.Session",
		"the singletons' shards have ordered links here; the session that ships runs in internal/sim/sharding",
	},
	{
		"internal/sim/durable.tenure.step", "internal/driver/durablehost.Tenure.effectsLocked",
		"durablehost is concurrent by its nature: see docs/adr/0016. What it adds to the core is covered by its own tests over faulty stores, by the kills of internal/e2e and by the linearizability checks of both",
	},
	{
		"internal/sim/durable.tenure.sweep", "internal/driver/durablehost.idle.moveSince",
		"see tenure.step",
	},
	{
		"internal/sim/durable.tenure.take", "internal/driver/durablehost.Tenure.done",
		"see tenure.step",
	},
}

const maxStandIns = 12

// Package calls measures the costs of calls and idle entities, beside limits that they cannot
// beat: a mutex and a channel for a local call, nats.Request and NATS with batches written by
// hand for a remote call, a map entry for an idle entity.
//
//	go test -C bench -run '^$' -bench . ./calls
//
// The benchmarks of remote calls run over a nats-server process of their own on the loopback
// interface. Caller and answerer are two connections of the benchmark's process, so allocs/op
// counts both sides. Those of durable calls have a store in memory that acknowledges at once. A
// figure for many callers is the time per call at full load, not the latency of one.
package calls

// Package limits measures what shardgen cannot beat, in the terms of its own
// benchmarks: a mutex and a channel for a local call, nats.Request and NATS with
// batching by hand for a remote one, a map entry for an idle entity.
//
//	go test -C bench -run '^$' -bench . ./limits
//
// The remote ones run over a nats-server process of their own on the loopback
// interface; caller and answerer are two connections of the benchmark's
// process, so allocs/op counts both sides. A figure for many callers is the
// time by call at full load, not the latency of one.
package limits

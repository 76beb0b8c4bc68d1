// Package calls measures what calls and idle entities cost, beside what cannot
// be beaten: a mutex and a channel for a local call, nats.Request and NATS with
// batching by hand for a remote one, a map entry for an idle entity.
//
//	go test -C bench -run '^$' -bench . ./calls
//
// The remote ones run over a nats-server process of their own on the loopback
// interface; caller and answerer are two connections of the benchmark's
// process, so allocs/op counts both sides. A figure for many callers is the
// time by call at full load, not the latency of one.
package calls

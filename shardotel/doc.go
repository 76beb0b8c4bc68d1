// Package shardotel reports calls and the state of nodes to OpenTelemetry. It is a module of its
// own, so programs that do not import it do not depend on OpenTelemetry.
//
//	telemetry, err := shardotel.New(shardotel.Options{})
//	…
//	node := shard.New(shard.Config{…, Interceptors: []shard.Interceptor{telemetry.Caller()}})
//	counter.HostCounter(node, newCounter, shard.Intercept(telemetry.Host()))
//	stop, err := telemetry.Observe(node)
//
// [Telemetry.Caller] is for each process that calls, a node or a [shard.Conn], and [Telemetry.Host]
// for each hosted type. Either works without the other. The headers traceparent, tracestate and
// baggage of a call carry its trace: within a process and over the network, in tells and through
// the gateway. If a method makes calls with its own context, they continue the trace. The span of a
// call at its host has children for its wait for the turn ("queue"), its turn, and the commit of a
// durable type.
//
// Interceptors have a cost: with them, calls within one process are encoded and run on another
// goroutine. docs/costs.md has figures. Types without [Telemetry.Host], and processes without
// [Telemetry.Caller], pay nothing.
//
// Ids of entities are in spans and never in metrics, whose labels are types, methods, and values of
// small fixed sets.
package shardotel

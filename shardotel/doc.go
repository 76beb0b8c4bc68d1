// Package shardotel reports calls and the state of nodes to OpenTelemetry. It is a module of its
// own, so programs that do not import it do not depend on OpenTelemetry.
//
//	telemetry := shardotel.New(shardotel.Options{})
//	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(exporter, metric.WithProducer(telemetry))))
//	node := shard.New(shard.Config{…})
//	stop, err := telemetry.Observe(node, meters)
//
// Each process counts its calls and turns anyway, so metrics cost calls nothing. [Telemetry.Produce]
// hands the counts to a reader of metrics.
//
// Spans come from interceptors. [Telemetry.Caller] is for each process that calls, a node or a
// [shard.Conn], and [Telemetry.Host] for each hosted type. Either works without the other. The
// headers traceparent, tracestate and baggage of a call carry its trace: within a process and over
// the network, in tells and through the gateway. If a method makes calls with its own context, they
// continue the trace. The span of a call at its host has children for its wait for the turn
// ("queue"), its turn, and the commit of a durable type.
//
// Interceptors have a cost: with them, calls within one process are encoded and run on another
// goroutine. docs/costs.md has figures.
//
// Ids of entities are in spans and never in metrics, whose labels are types, methods, and values of
// small fixed sets.
package shardotel

// Package shardotel reports calls and the state of nodes to OpenTelemetry. It is a module of its
// own, so programs that do not import it do not depend on OpenTelemetry.
//
//	telemetry := shardotel.New(shardotel.Options{})
//	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(exporter, metric.WithProducer(telemetry))))
//	node := shard.New(shard.Config{…})
//	stop, err := telemetry.Observe(node, meters)
//
// Each process counts its calls and turns anyway, so metrics do not slow calls down.
// [Telemetry.Produce] hands the counts to a reader of metrics.
//
// For spans, set the config's Tracing of each process, a node or a [shard.Conn], to a Telemetry:
//
//	telemetry := shardotel.New(shardotel.Options{Ratio: 0.01})
//	node := shard.New(shard.Config{…, Tracing: telemetry})
//
// A call is traced if the span in its context is sampled. A call without a span is traced with the
// probability [Options.Ratio]. Other calls run as without a Telemetry. A traced call has a span at
// its caller and one at its host, with children for its wait for the turn ("queue"), the commit of
// a durable type ("commit"), and calls that the method makes with its own context. The turn of a
// tell has a trace of its own, linked with its sender's span. Headers of the propagator carry
// traces over the network, in tells and through the gateway.
//
// Ids of entities are in spans and never in metrics, whose labels are types, methods, and values of
// small fixed sets.
package shardotel

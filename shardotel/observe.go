package shardotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	shard "github.com/shardgen/shardgen/runtime"
)

// A Process is a *shard.Node or a *shard.Conn.
type Process interface {
	Counters() map[string]uint64
	Health() shard.Health
}

// Labels of the metrics of a process.
const (
	keyReason = attribute.Key("shardgen.reason")
	keyStatus = attribute.Key("shardgen.status")
	keyState  = attribute.Key("shardgen.state")
)

// Observe reports the state of a process at each collection of metrics, until stop:
//
//   - shardgen.process.live and shardgen.process.ready, each 1 or 0: [shard.Health]
//   - shardgen.events by shardgen.reason: the process's Counters, such as "buffered", "forwarded",
//     "retried", "refused", "tell lost" and "shards moved"
//   - of a node also shardgen.members by shardgen.status, and shardgen.members.unreachable, as it
//     sees the cluster
//   - and of each type that it hosts, with the label shardgen.type: shardgen.shards by
//     shardgen.state, shardgen.entities, shardgen.entities.active, and shardgen.calls.waiting
//     for shards to open
//
// A collection visits each entity of the process, which takes some milliseconds for 100,000 of
// them. Observe fails if the meter refuses an instrument.
func (t *Telemetry) Observe(p Process) (stop func() error, err error) {
	o := &observer{process: p}
	o.node, _ = p.(*shard.Node)
	gauge := func(name, unit, about string) metric.Int64Observable {
		g, problem := t.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
		if problem != nil && err == nil {
			err = fmt.Errorf("shardotel: instrument %s: %w", name, problem)
		}
		return g
	}
	o.live = gauge("shardgen.process.live", "", "1 while the process may go on.")
	o.ready = gauge("shardgen.process.ready", "", "1 while the process is a full member, or a member serves it.")
	all := []metric.Observable{o.live, o.ready}
	counter, problem := t.meter.Int64ObservableCounter("shardgen.events", metric.WithUnit("{event}"),
		metric.WithDescription("What the process counts, by reason: calls that did not take the direct way, lost tells, moves, passivations."))
	if problem != nil {
		return nil, fmt.Errorf("shardotel: instrument shardgen.events: %w", problem)
	}
	o.events = counter
	all = append(all, counter)
	if o.node != nil {
		o.members = gauge("shardgen.members", "{member}", "Members of the cluster as this node sees them.")
		o.unreachable = gauge("shardgen.members.unreachable", "{member}", "Members that this node takes for unreachable.")
		o.shards = gauge("shardgen.shards", "{shard}", "Shards that the node has, receives, or forwards calls for.")
		o.entities = gauge("shardgen.entities", "{entity}", "Entities in the node's shards.")
		o.active = gauge("shardgen.entities.active", "{entity}", "Entities with a value in memory.")
		o.waiting = gauge("shardgen.calls.waiting", "{call}", "Calls that wait for a shard to open.")
		all = append(all, o.members, o.unreachable, o.shards, o.entities, o.active, o.waiting)
	}
	if err != nil {
		return nil, err
	}
	registration, err := t.meter.RegisterCallback(o.observe, all...)
	if err != nil {
		return nil, fmt.Errorf("shardotel: %w", err)
	}
	return registration.Unregister, nil
}

// An observer has the instruments of one process.
type observer struct {
	process Process
	node    *shard.Node // the process, if it is a node

	live, ready, events               metric.Int64Observable
	members, unreachable              metric.Int64Observable
	shards, entities, active, waiting metric.Int64Observable
}

// observe is called at each collection.
func (o *observer) observe(_ context.Context, out metric.Observer) error {
	health := o.process.Health()
	out.ObserveInt64(o.live, one(health.Live))
	out.ObserveInt64(o.ready, one(health.Ready))
	for reason, count := range o.process.Counters() {
		out.ObserveInt64(o.events, int64(count), metric.WithAttributes(keyReason.String(reason)))
	}
	if o.node != nil {
		o.observeMembers(out)
		o.observeShards(out)
	}
	return nil
}

func (o *observer) observeMembers(out metric.Observer) {
	byStatus, unreachable := map[string]int64{}, int64(0)
	for _, m := range o.node.Cluster().Members {
		byStatus[m.Status.String()]++
		unreachable += one(!m.Reachable)
	}
	for status, count := range byStatus {
		out.ObserveInt64(o.members, count, metric.WithAttributes(keyStatus.String(status)))
	}
	out.ObserveInt64(o.unreachable, unreachable)
}

func (o *observer) observeShards(out metric.Observer) {
	type stateOf struct{ kind, state string }
	shards, entities, active, waiting := map[stateOf]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, s := range o.node.RegionState("") {
		shards[stateOf{s.Kind, s.State}]++
		entities[s.Kind] += int64(s.Entities)
		active[s.Kind] += int64(s.Active)
		waiting[s.Kind] += int64(s.Waiting)
	}
	for s, count := range shards {
		out.ObserveInt64(o.shards, count, metric.WithAttributes(keyType.String(s.kind), keyState.String(s.state)))
	}
	for kind := range entities {
		of := metric.WithAttributes(keyType.String(kind))
		out.ObserveInt64(o.entities, entities[kind], of)
		out.ObserveInt64(o.active, active[kind], of)
		out.ObserveInt64(o.waiting, waiting[kind], of)
	}
}

// one is 1 for true.
func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

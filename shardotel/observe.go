package shardotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/measure"
	"github.com/shardgen/shardgen/runtime/membership"
)

// A Process is a *shard.Node or a *shard.Conn.
type Process interface {
	Counters() map[string]uint64
	Calls() measure.Calls
	Health() shard.Health
}

// Labels of the metrics of a process.
const (
	keyReason      = attribute.Key("shardgen.reason")
	keyCheck       = attribute.Key("shardgen.check")
	keyStatus      = attribute.Key("shardgen.status")
	keyState       = attribute.Key("shardgen.state")
	keyEvidence    = attribute.Key("shardgen.evidence")
	keyActivation  = attribute.Key("shardgen.activation")
	keyPassivation = attribute.Key("shardgen.passivation")
	keyFeed        = attribute.Key("shardgen.feed")
	keyMove        = attribute.Key("shardgen.move.outcome")
	keyMessage     = attribute.Key("shardgen.message")
	keyDirection   = attribute.Key("network.io.direction")
)

// Observe reports the calls of the process p, as [Telemetry.Count] does, until stop is called. At
// each collection of metrics it also reports the state of p:
//
//   - shardgen.process.live and shardgen.process.ready, each 1 or 0, from [shard.Health]
//   - shardgen.events by shardgen.reason: the process's Counters, such as "buffered", "forwarded",
//     "retried", "refused", "tell lost" and "shards moved"
//   - if p is a node: its view of the members, its membership messages, and its Load, which has
//     shards, entities, waiting calls and moves by type
//   - if p is a node: the durations of appends to the store and of pauses by moves, and the sizes
//     of batches, from the node's Measure
//
// docs/guide/metrics.md has all names and labels. A collection visits each entity of the process,
// which takes some milliseconds for 100,000 entities. meters provides the instruments; nil
// means OpenTelemetry's global provider. Observe fails if the provider refuses an instrument. If
// several processes use one provider, call Observe for one of them and Count for the others.
func (t *Telemetry) Observe(p Process, meters metric.MeterProvider) (stop func() error, err error) {
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	m := &maker{meter: meters.Meter(name)}
	o := &observer{process: p}
	o.node, _ = p.(*shard.Node)
	o.live = m.gauge("shardgen.process.live", "", "1 while the process may go on.")
	o.ready = m.gauge("shardgen.process.ready", "", "1 while the process is a full member, or a member serves it.")
	o.events = m.counter("shardgen.events", "{event}",
		"What the process counts, by reason: calls that did not take the usual path, lost tells, moves, passivations.")
	if o.node != nil {
		o.members = m.gauge("shardgen.members", "{member}", "Members of the cluster as this node sees them.")
		o.unreachable = m.gauge("shardgen.members.unreachable", "{member}", "Members that this node takes for unreachable, by the evidence.")
		o.load = newLoads(m)
	}
	if m.err != nil {
		return nil, m.err
	}
	registration, err := m.meter.RegisterCallback(o.observe, m.all...)
	if err != nil {
		return nil, fmt.Errorf("shardotel: register callback: %w", err)
	}
	end := func() {}
	if o.node != nil {
		measured, err := newMeasures(m.meter)
		if err != nil {
			return nil, errors.Join(err, registration.Unregister())
		}
		end = o.node.Measure(measured.meter())
	}
	uncount := t.Count(p)
	return func() error {
		end()
		uncount()
		return registration.Unregister()
	}, nil
}

// A maker makes the instruments of an observer. It keeps the first error.
type maker struct {
	meter metric.Meter
	all   []metric.Observable
	err   error
}

func (m *maker) made(o metric.Int64Observable, name string, err error) metric.Int64Observable {
	m.note(o, name, err)
	return o
}

func (m *maker) note(o metric.Observable, name string, err error) {
	if err != nil && m.err == nil {
		m.err = fmt.Errorf("shardotel: instrument %s: %w", name, err)
	}
	m.all = append(m.all, o)
}

// share makes a gauge of a fractional number.
func (m *maker) share(name, unit, about string) metric.Float64Observable {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
	m.note(g, name, err)
	return g
}

func (m *maker) gauge(name, unit, about string) metric.Int64Observable {
	g, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
	return m.made(g, name, err)
}

func (m *maker) counter(name, unit, about string) metric.Int64Observable {
	c, err := m.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(about))
	return m.made(c, name, err)
}

// An observer has the instruments that report one process.
type observer struct {
	process Process
	node    *shard.Node // the process, if it is a node

	live, ready, events  metric.Int64Observable
	members, unreachable metric.Int64Observable // only for a node, as is load
	load                 *loads
}

// observe reports the state of the process. It is called at each collection.
func (o *observer) observe(_ context.Context, out metric.Observer) error {
	health := o.process.Health()
	out.ObserveInt64(o.live, one(health.Live))
	out.ObserveInt64(o.ready, one(health.Ready))
	for reason, count := range o.process.Counters() {
		out.ObserveInt64(o.events, int64(count), metric.WithAttributes(keyReason.String(reason)))
	}
	if o.node != nil {
		o.observeMembers(out)
		o.load.observe(out, o.node.Load())
	}
	return nil
}

func (o *observer) observeMembers(out metric.Observer) {
	byStatus, unreachable := map[string]int64{}, map[string]int64{}
	for _, m := range o.node.Cluster().Members {
		byStatus[m.Status.String()]++
		if !m.Reachable {
			unreachable[m.Evidence]++
		}
	}
	for status, count := range byStatus {
		out.ObserveInt64(o.members, count, metric.WithAttributes(keyStatus.String(status)))
	}
	for e := membership.EvidenceSilent; e <= membership.EvidenceGone; e++ {
		out.ObserveInt64(o.unreachable, unreachable[e.String()], metric.WithAttributes(keyEvidence.String(e.String())))
	}
}

// one returns the value of a metric that is 1 for true and 0 for false.
func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

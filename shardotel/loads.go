package shardotel

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/shardgen/shardgen/runtime/measure"
)

// loads are the instruments that report a node's [measure.Load].
type loads struct {
	used, capacity, gc, typeUsed            metric.Float64Observable
	buffer, limit                           metric.Int64Observable
	refused, messages, downed, health       metric.Int64Observable
	faults                                  metric.Int64Observable
	shards, homeless, entities, active      metric.Int64Observable
	instances, wanted                       metric.Int64Observable
	held, waiting, queued, size             metric.Int64Observable
	activations, passivations, passivated   metric.Int64Observable
	movesStarted, movesEnded, movesUnderWay metric.Int64Observable
	feedWaiting, feedRead, feedMissed       metric.Int64Observable
	feedTells, feedFailures, feedDead       metric.Int64Observable
}

func newLoads(m *maker) *loads {
	return &loads{
		used:          m.share("shardgen.processors.used", "{processor}", "Processors that the process has used in the last 10 s."),
		capacity:      m.share("shardgen.processors.capacity", "{processor}", "Config.Capacity: how many it may use."),
		gc:            m.share("shardgen.processors.gc", "1", "The share of the used processors that is garbage collection."),
		typeUsed:      m.share("shardgen.shards.processors", "{processor}", "Processors that a type's shards at the node have used in the last 10 s."),
		buffer:        m.gauge("shardgen.buffer.usage", "By", "Bytes of the calls that wait at the node."),
		limit:         m.gauge("shardgen.buffer.limit", "By", "Config.Limits.BufferBytes: how many they may have."),
		refused:       m.counter("shardgen.calls.refused", "{call}", "Calls that the node has refused, by cause."),
		messages:      m.counter("shardgen.membership.messages", "{message}", "Messages of the membership, such as heartbeats and gossip."),
		downed:        m.counter("shardgen.members.downed", "{member}", "Members that the node has seen downed, by the evidence."),
		health:        m.gauge("shardgen.membership.health", "1", "The node's score of its own health, with a membership table: 0 is healthy, 8 the worst."),
		faults:        m.gauge("shardgen.faults", "{fault}", "Faults that the node has found at itself and in the cluster."),
		shards:        m.gauge("shardgen.shards", "{shard}", "Shards that the node has, receives, or forwards calls for."),
		homeless:      m.gauge("shardgen.shards.homeless", "{shard}", "Shards without a home, in the node's table."),
		instances:     m.gauge("shardgen.pool.instances", "{instance}", "Instances of a pool, in the node's table."),
		wanted:        m.gauge("shardgen.pool.wanted", "{instance}", "Instances that a pool should have, also if its members have no room for them; only at the coordinator's node."),
		entities:      m.gauge("shardgen.entities", "{entity}", "Entities in the node's shards."),
		active:        m.gauge("shardgen.entities.active", "{entity}", "Entities with a value in memory."),
		held:          m.gauge("shardgen.calls.held", "{call}", "Calls of this process that wait for their shards to have a home."),
		waiting:       m.gauge("shardgen.calls.waiting", "{call}", "Calls that wait for a shard to open."),
		queued:        m.gauge("shardgen.calls.queued", "{call}", "Calls in the mailboxes of entities, which wait for their turns."),
		size:          m.gauge("shardgen.calls.waiting.size", "By", "Bytes of the calls that wait for a shard to open or for their turns."),
		activations:   m.counter("shardgen.entities.activations", "{activation}", "Activations, by their reason."),
		passivations:  m.counter("shardgen.entities.passivations", "{passivation}", "Passivations, by their reason."),
		passivated:    m.counter("shardgen.entities.passivated.size", "By", "Bytes of the encoded states of entities when they were passivated."),
		movesStarted:  m.counter("shardgen.moves.started", "{move}", "Moves of shards away from the node."),
		movesEnded:    m.counter("shardgen.moves.ended", "{move}", "Moves away that have ended, by their outcome."),
		movesUnderWay: m.gauge("shardgen.moves.active", "{move}", "Moves away that are under way."),
		feedWaiting:   m.gauge("shardgen.feeds.waiting", "{tell}", "Tells of a stream that were read and are not committed."),
		feedRead:      m.counter("shardgen.feeds.messages", "{message}", "Messages of a stream that were read."),
		feedMissed:    m.counter("shardgen.feeds.missed", "{message}", "Messages of a stream that were deleted before they could be read."),
		feedTells:     m.counter("shardgen.feeds.tells", "{tell}", "Tells of a stream that are finished."),
		feedFailures:  m.counter("shardgen.feeds.failures", "{attempt}", "Attempts to apply tells of a stream that their receivers failed."),
		feedDead:      m.counter("shardgen.feeds.dead", "{letter}", "Dead letters of a stream that were stored."),
	}
}

func (l *loads) observe(out metric.Observer, load measure.Load) {
	out.ObserveFloat64(l.used, load.Process.Used)
	out.ObserveFloat64(l.capacity, load.Process.Capacity)
	out.ObserveFloat64(l.gc, load.Process.GC)
	out.ObserveInt64(l.buffer, load.BufferBytes)
	out.ObserveInt64(l.limit, load.BufferLimit)
	each(out, l.refused, load.Refused, keyError)
	each(out, l.messages, load.Sent, keyMessage, keyDirection.String("transmit"))
	each(out, l.messages, load.Received, keyMessage, keyDirection.String("receive"))
	each(out, l.downed, load.Downed, keyEvidence)
	out.ObserveInt64(l.health, int64(load.Health))
	each(out, l.faults, load.Faults, keyCheck)
	for _, t := range load.Types {
		l.observeType(out, t)
	}
	for _, f := range load.Feeds {
		of := metric.WithAttributes(keyFeed.String(f.Name))
		out.ObserveInt64(l.feedWaiting, f.Waiting, of)
		out.ObserveInt64(l.feedRead, int64(f.Read), of)
		out.ObserveInt64(l.feedMissed, int64(f.Missed), of)
		out.ObserveInt64(l.feedTells, int64(f.Committed), of)
		out.ObserveInt64(l.feedFailures, int64(f.Failed), of)
		out.ObserveInt64(l.feedDead, int64(f.Dead), of)
	}
}

func (l *loads) observeType(out metric.Observer, t measure.Type) {
	kind := keyType.String(t.Kind)
	of := metric.WithAttributes(kind)
	out.ObserveInt64(l.held, int64(t.Held), of)
	out.ObserveInt64(l.homeless, int64(t.Homeless), of)
	if t.Instances > 0 {
		out.ObserveInt64(l.instances, int64(t.Instances), of)
	}
	if t.Wanted > 0 {
		out.ObserveInt64(l.wanted, int64(t.Wanted), of)
	}
	if t.Activations == nil {
		return // the type is not hosted here
	}
	for state, count := range t.Shards {
		out.ObserveInt64(l.shards, int64(count), metric.WithAttributes(kind, keyState.String(state)))
	}
	out.ObserveFloat64(l.typeUsed, t.Used, of)
	out.ObserveInt64(l.entities, int64(t.Entities), of)
	out.ObserveInt64(l.active, int64(t.Active), of)
	out.ObserveInt64(l.waiting, int64(t.Opening), of)
	out.ObserveInt64(l.queued, int64(t.Queued), of)
	out.ObserveInt64(l.size, t.WaitingBytes, of)
	each(out, l.activations, t.Activations, keyActivation, kind)
	each(out, l.passivations, t.Passivations, keyPassivation, kind)
	out.ObserveInt64(l.passivated, int64(t.PassivatedBytes), of)
	out.ObserveInt64(l.movesStarted, int64(t.MovesBegun), of)
	out.ObserveInt64(l.movesUnderWay, int64(t.MovesBegun-t.MovesCommitted-t.MovesGivenUp), of)
	out.ObserveInt64(l.movesEnded, int64(t.MovesCommitted), metric.WithAttributes(kind, keyMove.String(moveCommitted)))
	out.ObserveInt64(l.movesEnded, int64(t.MovesGivenUp), metric.WithAttributes(kind, keyMove.String(moveGivenUp)))
}

// The values of the label shardgen.move.outcome.
const (
	moveCommitted = "committed"
	moveGivenUp   = "given up"
)

// each reports every count in counts, with the labels in others and one more label. The key of that
// label is the parameter label, and its value is the name of the count.
func each(out metric.Observer, o metric.Int64Observable, counts map[string]uint64, label attribute.Key, others ...attribute.KeyValue) {
	for name, count := range counts {
		all := append([]attribute.KeyValue{label.String(name)}, others...)
		out.ObserveInt64(o, int64(count), metric.WithAttributes(all...))
	}
}

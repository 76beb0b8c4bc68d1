// Package load calls the entities of the workload at a steady rate, records the fate of every call,
// and judges the fates in the end.
package load

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/witness"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// Options say how many entities are called, and how often.
type Options struct {
	Entities int // at least 1
	Rate     int // calls a second, all senders together; at least 1
}

// A Load makes calls from several senders to all entities. Each pair of sender and entity has a
// goroutine, so an entity that does not answer delays no call to another entity.
type Load struct {
	options Options
	pairs   []*pair
	pauses  []*pauses // of tallies, then of relays
	made    atomic.Int64
	failed  atomic.Int64
	errors  errorSample
	stop    chan struct{}
	wg      sync.WaitGroup
}

// EntityID returns the id of the i-th entity.
func EntityID(i int) string { return fmt.Sprintf("tally-%d", i) }

// relayPrefix is the prefix of the id of an entity's relay.
const relayPrefix = "relay-of-"

// Start begins to call the entities. Each caller has one sender, which calls the entities directly.
// One more sender calls relays, which are entities that pass the calls to the other entities. There
// must be at least one caller.
func Start(o Options, callers ...shard.Caller) *Load {
	l := &Load{options: o, stop: make(chan struct{})}
	for i := range o.Entities {
		l.pauses = append(l.pauses, newPauses(EntityID(i)))
	}
	for i, caller := range callers {
		client := workload.NewTallyClient(caller)
		for j := range o.Entities {
			w := straight{client.Ref(EntityID(j)), client.Tell(EntityID(j))}
			l.add(fmt.Sprintf("sender-%d", i), j, w, l.pauses[j])
		}
	}
	relays := workload.NewRelayClient(callers[0])
	for j := range o.Entities {
		p := newPauses(relayPrefix + EntityID(j))
		l.pauses = append(l.pauses, p)
		l.add("relay", j, relayed{relays.Ref(p.entity), EntityID(j)}, p)
	}
	l.start()
	return l
}

func (l *Load) add(sender string, entity int, w path, p *pauses) {
	l.pairs = append(l.pairs, &pair{load: l, sender: sender, entity: EntityID(entity), path: w, pauses: p})
}

// start spreads the pairs' first calls over one tick. For a constant rate, half of the pairs begin
// with a round's second tick.
func (l *Load) start() {
	pairs, tick := time.Duration(len(l.pairs)), l.Tick()
	begin := time.Now()
	for i, p := range l.pairs {
		first := begin.Add(tick * time.Duration(i) / pairs)
		l.wg.Go(func() { p.run(first, tick, i%ticksPerRound) })
	}
}

// Stop ends the calls and waits for those under way. A sender whose last call failed goes on until a
// call succeeds, at most for patience.
func (l *Load) Stop() {
	close(l.stop)
	l.wg.Wait()
}

// Made returns the number of calls so far.
func (l *Load) Made() int { return int(l.made.Load()) }

// Failed returns the number of calls so far that returned an error.
func (l *Load) Failed() int { return int(l.failed.Load()) }

// Errors returns the first errors of calls, at most maxExamples.
func (l *Load) Errors() []string {
	l.errors.mu.Lock()
	defer l.errors.mu.Unlock()
	return slices.Clone(l.errors.texts)
}

// LastSeen counts the entities, without relays, by the node from which the last answer came. Key ""
// counts those that have never answered.
func (l *Load) LastSeen() map[string]int {
	seen := make(map[string]int)
	for _, p := range l.pauses[:l.options.Entities] {
		seen[p.lastSeen()]++
	}
	return seen
}

// Unseen counts the entities and relays that have never answered.
func (l *Load) Unseen() (n int) {
	for _, p := range l.pauses {
		if p.lastSeen() == "" {
			n++
		}
	}
	return n
}

// LivingAt returns the entities and relays whose last answer came from the node.
func (l *Load) LivingAt(node string) map[string]bool {
	living := make(map[string]bool)
	for _, p := range l.pauses {
		if p.lastSeen() == node {
			living[p.entity] = true
		}
	}
	return living
}

// Seen returns the node of the last answer, by the id of the entity or relay.
func (l *Load) Seen() map[string]string {
	seen := make(map[string]string, len(l.pauses))
	for _, p := range l.pauses {
		seen[p.entity] = p.lastSeen()
	}
	return seen
}

// Tick returns the time between two bursts of one sender to one entity.
func (l *Load) Tick() time.Duration {
	return callsPerRound * time.Second * time.Duration(len(l.pairs)) / time.Duration(ticksPerRound*l.options.Rate)
}

// Concerns reports whether the set these contains the entity or, if entity is a relay, the entity
// called by the relay.
func Concerns(these map[string]bool, entity string) bool {
	return these[entity] || these[strings.TrimPrefix(entity, relayPrefix)]
}

// Failures counts the bursts that had a failed call and ended after the given time. first and last
// are the times at which the first and the last of these bursts ended; they are zero if n is 0.
func (l *Load) Failures(after time.Time) (n int, first, last time.Time) {
	for _, p := range l.pauses {
		p.mu.Lock()
		for _, at := range p.failures {
			if !at.After(after) {
				continue
			}
			n++
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
		}
		p.mu.Unlock()
	}
	return n, first, last
}

// Judge compares the answers that senders got, the turns in ran, and each entity's final state, which
// it reads through c. ran has all records of all witnesses in order of time. The state of an entity
// that does not answer counts as empty. died are the entities whose process was killed. Judge must be
// called after Stop.
func (l *Load) Judge(ctx context.Context, c shard.Caller, ran []witness.Record, died map[string]bool) Verdict {
	h := history{fates: make(map[pairKey][]Fate), ran: ran, died: died, remembered: remembered(ctx, c, l.options.Entities, &l.errors)}
	for _, p := range l.pairs {
		h.fates[pairKey{p.entity, p.sender}] = p.fates
	}
	return h.judge()
}

// Timing returns how entities for which include returns true have answered since the time from. P50
// and P99 are quantiles of their longest pauses.
func (l *Load) Timing(from time.Time, include func(entity string) bool) Timing {
	now := time.Now()
	var t Timing
	var longest []time.Duration
	for _, p := range l.pauses {
		if !include(p.entity) {
			continue
		}
		pause := p.longest(from, now)
		longest = append(longest, pause)
		t.Longest = max(t.Longest, pause)
		at, never := p.recovered(from, Slow)
		if never {
			t.Silent++
			at = now
		}
		if !at.IsZero() {
			t.Disturbed++
			t.Recovery = max(t.Recovery, at.Sub(from))
		}
	}
	if n := len(longest); n > 0 {
		slices.Sort(longest)
		t.P50, t.P99 = longest[n/2], longest[n*99/100]
	}
	return t
}

// Latency returns the p50 and p99 of pauses within [from, to] of entities for which include returns
// true.
func (l *Load) Latency(from, to time.Time, include func(entity string) bool) (p50, p99 time.Duration) {
	var all []time.Duration
	for _, p := range l.pauses {
		if include(p.entity) {
			all = p.within(all, from, to)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

// Describe formats the result of [Load.LastSeen] for messages, in the order of the nodes' names.
func Describe(seen map[string]int) string {
	text := ""
	for _, node := range slices.Sorted(maps.Keys(seen)) {
		text += fmt.Sprintf(" %s=%d", node, seen[node])
	}
	return "entities seen at" + text
}

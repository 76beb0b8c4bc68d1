// Package load calls the entities of the workload at a steady rate, keeps the
// fate of every call, and judges it in the end.
package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/witness"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// Options say how much is called.
type Options struct {
	Entities int // at least 1
	Rate     int // calls a second, all senders together; at least 1
}

// A round of a sender's calls to an entity takes two ticks: one call that is
// answered; then two that are not and one that is, at once, so that an order can
// break.
const (
	callsPerRound = 4
	ticksPerRound = 2
)

// A Load is calls from several senders to all entities. Each pair of sender and
// entity is a goroutine of its own, so that an entity that does not answer holds
// up only the calls to itself.
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

// A pair is one sender's calls to one entity.
type pair struct {
	load   *Load
	sender string
	entity string
	path   path
	pauses *pauses
	fates  []Fate // of sequence numbers 1, 2, … ; read after Stop

	failing bool // the last call failed
}

// EntityName is the id of an entity.
func EntityName(i int) string { return fmt.Sprintf("tally-%d", i) }

// relayPrefix and an entity's name are the name of its relay.
const relayPrefix = "relay-of-"

// Start begins to call through each of the callers; each is one sender. One more
// sender calls through relays: entities that call the entities.
func Start(o Options, callers ...shard.Caller) *Load {
	l := &Load{options: o, stop: make(chan struct{})}
	for i := range o.Entities {
		l.pauses = append(l.pauses, newPauses(EntityName(i)))
	}
	for i, caller := range callers {
		client := workload.NewTallyClient(caller)
		for j := range o.Entities {
			w := straight{client.Ref(EntityName(j)), client.Tell(EntityName(j))}
			l.add(fmt.Sprintf("sender-%d", i), j, w, l.pauses[j])
		}
	}
	relays := workload.NewRelayClient(callers[0])
	for j := range o.Entities {
		p := newPauses(relayPrefix + EntityName(j))
		l.pauses = append(l.pauses, p)
		l.add("relay", j, relayed{relays.Ref(p.entity), EntityName(j)}, p)
	}
	l.start()
	return l
}

func (l *Load) add(sender string, entity int, w path, p *pauses) {
	l.pairs = append(l.pairs, &pair{load: l, sender: sender, entity: EntityName(entity), path: w, pauses: p})
}

// start spreads the first ticks of the pairs over one tick; one half of the pairs
// begins with the second tick of a round, so that the rate is the same at any time.
func (l *Load) start() {
	pairs, tick := time.Duration(len(l.pairs)), l.Tick()
	begin := time.Now()
	for i, p := range l.pairs {
		first := begin.Add(tick * time.Duration(i) / pairs)
		l.wg.Go(func() { p.run(first, tick, i%ticksPerRound) })
	}
}

// patience is how long a sender whose last call failed goes on after Stop: when
// its entity answers again must be known.
const patience = 15 * time.Second

// Stop lets the calls under way end and makes no more, but for senders whose last
// call failed: they go on until one succeeds, or some seconds have passed.
func (l *Load) Stop() {
	close(l.stop)
	l.wg.Wait()
}

// Made is the number of calls so far.
func (l *Load) Made() int { return int(l.made.Load()) }

// Failed is the number of calls so far that had an error.
func (l *Load) Failed() int { return int(l.failed.Load()) }

// Errors are the first errors of calls.
func (l *Load) Errors() []string {
	l.errors.mu.Lock()
	defer l.errors.mu.Unlock()
	return slices.Clone(l.errors.texts)
}

// Homes counts the entities by the node where each was last seen. Those that
// never answered are under "".
func (l *Load) Homes() map[string]int {
	homes := make(map[string]int)
	for _, p := range l.pauses[:l.options.Entities] {
		homes[p.home()]++
	}
	return homes
}

// Unseen counts the entities and relays that never answered.
func (l *Load) Unseen() (n int) {
	for _, p := range l.pauses {
		if p.home() == "" {
			n++
		}
	}
	return n
}

// LivingAt returns the entities, relays too, last seen at the node.
func (l *Load) LivingAt(node string) map[string]bool {
	living := make(map[string]bool)
	for _, p := range l.pauses {
		if p.home() == node {
			living[p.entity] = true
		}
	}
	return living
}

// Seen is where each entity, relays too, was last seen.
func (l *Load) Seen() map[string]string {
	seen := make(map[string]string, len(l.pauses))
	for _, p := range l.pauses {
		seen[p.entity] = p.home()
	}
	return seen
}

// Tick is how long it takes until every sender has called every entity once more.
func (l *Load) Tick() time.Duration {
	return callsPerRound * time.Second * time.Duration(len(l.pairs)) / time.Duration(ticksPerRound*l.options.Rate)
}

// Concerns reports whether one of these entities is the entity, or has to do with
// it: a relay has to do with its target.
func Concerns(these map[string]bool, entity string) bool {
	return these[entity] || these[strings.TrimPrefix(entity, relayPrefix)]
}

// retryAfter is how soon a sender calls again whose last call failed: the end of
// a pause is then measured, and not when the sender's next tick would have come.
const retryAfter = 50 * time.Millisecond

// run makes calls, each tick its share of a round, until Stop. The first tick is
// the given one of a round.
func (p *pair) run(next time.Time, tick time.Duration, first int) {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for i := first; ; {
		select {
		case <-p.load.stop:
			p.untilAnswered()
			return
		case <-timer.C:
		}
		if p.failing || i%ticksPerRound == 0 {
			p.burst(1)
		} else {
			p.burst(callsPerRound - 1)
		}
		if p.failing {
			timer.Reset(retryAfter)
			continue
		}
		// After a pause there is no catching up: the rate would be another one. And
		// each pair keeps its place in the tick, or all would call at once from then on.
		i++
		if late := time.Since(next); late > 0 {
			next = next.Add(late.Truncate(tick))
		}
		next = next.Add(tick)
		timer.Reset(time.Until(next))
	}
}

// untilAnswered calls again and again if the last call failed.
func (p *pair) untilAnswered() {
	again := time.NewTicker(retryAfter)
	defer again.Stop()
	for limit := time.Now().Add(patience); p.failing && time.Now().Before(limit); <-again.C {
		p.burst(1)
	}
}

// burst makes calls at once, of which only the last is answered.
func (p *pair) burst(calls int) {
	first := uint64(len(p.fates)) + 1
	begin := time.Now()
	fates, node, err := p.path.burst(context.Background(), p.sender, first, calls)
	p.pauses.answered(begin, time.Now(), node, err)
	p.failing = err != nil
	p.fates = append(p.fates, fates...)
	p.load.made.Add(int64(calls))
	for _, f := range fates {
		if f == Refused || f == Uncertain {
			p.load.failed.Add(1)
		}
	}
	if err != nil {
		p.load.errors.add(err)
	}
}

// Failures counts the bursts in which a call failed after a time, and returns the ends of the
// first and of the last of them: both zero if none failed.
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

// Judge reads the record of every entity and compares it with the answers that
// senders got and with the runs that the witness saw: all of the records, in order of
// time. died are the entities whose process was killed. An entity that does not
// answer remembers nothing. Judge is called after Stop.
func (l *Load) Judge(ctx context.Context, c shard.Caller, ran []witness.Record, died map[string]bool) Verdict {
	h := history{fates: make(map[pairKey][]Fate), ran: ran, died: died, remembered: remembered(ctx, c, l.options.Entities, &l.errors)}
	for _, p := range l.pairs {
		h.fates[pairKey{p.entity, p.sender}] = p.fates
	}
	return h.judge()
}

// Timing measures the entities that which selects, from a time on. P50 and P99
// are of the entities' longest pauses.
func (l *Load) Timing(from time.Time, which func(entity string) bool) Timing {
	now := time.Now()
	var t Timing
	var longest []time.Duration
	for _, p := range l.pauses {
		if !which(p.entity) {
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

// Latency is how long entities that which selects took to answer between two
// times: quantiles of all bursts of calls that began and ended then and went well.
func (l *Load) Latency(from, to time.Time, which func(entity string) bool) (p50, p99 time.Duration) {
	var all []time.Duration
	for _, p := range l.pauses {
		if which(p.entity) {
			all = p.within(all, from, to)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

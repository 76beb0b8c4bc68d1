package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport"
)

const (
	// fresh is how long an answer of the cluster is reused.
	fresh = time.Second
	// shardsFresh is fresh for answers about shards: members visit all their shards.
	shardsFresh = 5 * time.Second
	eventsKept  = 2000
	// trendsFresh is fresh for trends: members measure the latest minute every 10 s.
	trendsFresh = 10 * time.Second
)

// A collector asks the cluster, once for all viewers, while the page has viewers. It is safe for
// concurrent use.
type collector struct {
	source  source
	cluster string

	asking  chan struct{} // the goroutine that fills it may ask and use the next fields
	events  eventReader
	turns   []admin.NodeTurns
	shards  []admin.NodeShards
	shardAt time.Time
	trends  map[transport.Address][]admin.Minute // also of members that have left
	trendAt time.Time
	number  uint64 // of the latest event

	latestMu sync.Mutex
	latest   *snapshot // never changed; nil means there is none
}

func newCollector(s source, cluster string) *collector {
	return &collector{source: s, cluster: cluster, asking: make(chan struct{}, 1), events: s.events(), number: uint64(time.Now().UnixMilli())}
}

// look returns the state of the cluster, at most a second old unless the cluster is slow. It
// returns nil if ctx ends before the first answer.
func (c *collector) look(ctx context.Context) *snapshot {
	last := c.last()
	if last == nil {
		select {
		case c.asking <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
	} else {
		if time.Since(last.At) < fresh {
			return last
		}
		select {
		case c.asking <- struct{}{}:
		default:
			return last // another viewer's request is under way
		}
	}
	defer func() { <-c.asking }()
	if now := c.last(); now != last {
		return now
	}
	next := c.ask(ctx, last)
	c.latestMu.Lock()
	defer c.latestMu.Unlock()
	c.latest = next
	return next
}

func (c *collector) last() *snapshot {
	c.latestMu.Lock()
	defer c.latestMu.Unlock()
	return c.latest
}

func (c *collector) ask(ctx context.Context, last *snapshot) *snapshot {
	ctx = context.WithoutCancel(ctx) // others wait for it, too
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	next := newSnapshot()
	if last != nil {
		*next = *last
	}
	now := time.Now()
	var (
		asking                                                  sync.WaitGroup
		view                                                    admin.View
		moves                                                   []admin.Move
		counters                                                []admin.NodeCounters
		turns                                                   []admin.NodeTurns
		events                                                  []admin.Event
		viewErr, shardErr, moveErr, countErr, turnErr, eventErr error
		facts                                                   []admin.NodeFact
		factsErr                                                error
		trendsNew                                               bool
	)
	asking.Go(func() { view, viewErr = c.source.Members(ctx) })
	if now.Sub(c.shardAt) >= shardsFresh {
		asking.Go(func() {
			if c.shards, shardErr = c.source.Shards(ctx, ""); shardErr == nil {
				c.shardAt = now
			}
		})
	}
	asking.Go(func() { trendsNew = c.askTrends(ctx, now) })
	asking.Go(func() { facts, factsErr = c.source.Facts(ctx) })
	asking.Go(func() { moves, _, moveErr = c.source.Moves(ctx) })
	asking.Go(func() { counters, countErr = c.source.Counters(ctx) })
	asking.Go(func() { turns, turnErr = c.source.Turns(ctx) })
	asking.Go(func() { events, eventErr = c.events.Next(ctx) })
	asking.Wait()

	next.At, next.Error = now, ""
	err := errors.Join(viewErr, shardErr, factsErr)
	if err != nil {
		next.Error = err.Error()
	} else {
		next.setMembers(view)
		next.setShards(c.shards)
		next.setFacts(facts)
	}
	next.Health = clusterview.Judge(c.cluster, clusterview.Snapshot(view, c.shards, facts, err))
	if moveErr == nil {
		next.setMoves(moves)
	}
	if countErr == nil {
		next.setCounters(counters)
	}
	if turnErr == nil {
		if c.turns != nil {
			rates := clusterview.RatesBetween(c.cluster, c.turns, turns)
			next.Rates = &rates
		}
		c.turns = turns
	}
	if trendsNew {
		next.trends = c.sumTrends(now)
	}
	_ = eventErr // of silent members, which Health names; the other members' events came
	next.Events = c.append(next.Events, events)
	return next
}

// askTrends asks for the last hour if the previous request was a minute ago, else for two minutes.
// It reports whether answers came.
func (c *collector) askTrends(ctx context.Context, now time.Time) bool {
	age := now.Sub(c.trendAt)
	if age < trendsFresh {
		return false
	}
	after := time.Time{}
	if age < time.Minute {
		after = now.Add(-2 * time.Minute).Truncate(time.Minute).Add(-time.Second)
	}
	all, err := c.source.Trends(ctx, after)
	if err != nil {
		return false
	}
	kept := map[transport.Address][]admin.Minute{}
	hour := now.Add(-time.Hour)
	for node, minutes := range c.trends { //arch:order-free each is kept by itself
		if have := clusterview.KeepMinutes(minutes, nil, hour); len(have) > 0 {
			kept[node] = have
		}
	}
	partly := false
	for _, n := range all {
		partly = partly || n.Err == nil && len(c.trends[n.Node]) == 0 && !after.IsZero()
		kept[n.Node] = clusterview.KeepMinutes(kept[n.Node], n.Minutes, hour)
	}
	c.trends, c.trendAt = kept, now
	if partly { // next time, ask for the new member's whole hour
		c.trendAt = time.Time{}
	}
	return true
}

func (c *collector) sumTrends(now time.Time) clusterview.Trends {
	members := map[string][]admin.Minute{}
	for node, minutes := range c.trends { //arch:order-free they are added
		members[node.Name] = append(members[node.Name], minutes...)
	}
	return clusterview.TrendsOf(now, members)
}

func (c *collector) append(before []eventRow, events []admin.Event) []eventRow {
	all := make([]eventRow, 0, len(before)+len(events))
	all = append(all, before...)
	for _, e := range events {
		c.number++
		all = append(all, eventRow{c.number, e.Time, e.Level.String(), e.Node.Name, len(e.Also), e.Text, e.Attrs})
	}
	return all[max(0, len(all)-eventsKept):]
}

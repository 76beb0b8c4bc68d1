package fault

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
)

// A Survival has the results of repeated strikes on nodes or servers of durable entities.
type Survival struct {
	Fault                 string
	Nodes, Entities       int
	Calls                 int
	Failed, Lost, Doubled int
	Closed                int // entities whose shard says that the store has lost acknowledged changes
	Limits                Limits
	Effects               []Effects // of tills' calls, elsewhere
	Strikes               []SurvivalStrike
	Errors                []string // the first that callers got
	Lanes                 *Lanes
}

type SurvivalStrike struct {
	Victim string          // the node, nodes or server that were hit
	After  []time.Duration // by entity: from the strike to its answer, or with Strike.Slowest its slowest call; sorted
}

func (s SurvivalStrike) p99() time.Duration {
	if len(s.After) == 0 {
		return 0
	}
	return s.After[min(len(s.After)*99/100, len(s.After)-1)]
}

func (s Survival) Missed() (misses []string) {
	for _, c := range []struct {
		what      string
		got, most int
	}{{"failed", s.Failed, s.Limits.Failed}, {"lost", s.Lost, s.Limits.Lost}, {"doubled", s.Doubled, s.Limits.Doubled}, {"closed", s.Closed, s.Limits.Closed}} {
		if c.most != unjudged && c.got > c.most {
			misses = append(misses, fmt.Sprintf("%s: %d, want at most %d", c.what, c.got, c.most))
		}
	}
	for _, e := range s.Effects {
		if e.Lost > s.Limits.Lost || e.Doubled > s.Limits.Doubled || e.Seen == 0 {
			misses = append(misses, fmt.Sprintf("%s: %d seen, %d lost, %d doubled, want at most %d and %d", e.Observer, e.Seen, e.Lost, e.Doubled, s.Limits.Lost, s.Limits.Doubled))
		}
	}
	for i, r := range s.Strikes {
		if p := r.p99(); p > s.Limits.Recovery {
			misses = append(misses, fmt.Sprintf("strike %d: entities answer after %v, p99, want at most %v", i+1, round(p), s.Limits.Recovery))
		}
	}
	return append(misses, s.Lanes.missed()...)
}

func (s Survival) Print(w io.Writer) error {
	for i, r := range s.Strikes {
		var last time.Duration
		if n := len(r.After); n > 0 {
			last = r.After[n-1]
		}
		fmt.Fprintf(w, "%s %2d: %s, %d entities answer again: p99 after %v, all after %v\n", s.Fault, i+1, r.Victim, len(r.After),
			r.p99().Round(time.Millisecond), last.Round(time.Millisecond))
	}
	_, err := fmt.Fprintf(w, "%s of %d nodes with %d entities, %d times: calls=%d failed=%d lost=%d doubled=%d closed=%d\n",
		s.Fault, s.Nodes, s.Entities, len(s.Strikes), s.Calls, s.Failed, s.Lost, s.Doubled, s.Closed)
	for _, e := range s.Effects {
		fmt.Fprintf(w, "%s: seen=%d lost=%d doubled=%d\n", e.Observer, e.Seen, e.Lost, e.Doubled)
	}
	for _, e := range s.Errors {
		fmt.Fprintln(w, e)
	}
	s.Lanes.print(w)
	return err
}

// survived injects f, o.Times times, while durable entities are called. Ended nodes are replaced
// between strikes.
func survived(ctx context.Context, c *cluster.Cluster, f Fault, o Options) (Outcome, error) {
	s := Survival{Fault: f.Name, Nodes: o.Nodes, Entities: o.Load.Entities, Limits: f.Limits}
	d := &DurableRun{crew: crew{Cluster: c}, Length: o.Length}
	if err := d.grow(ctx, o.Nodes); err != nil {
		return s, err
	}
	conn, err := c.Dial(ctx, "client")
	if err != nil {
		return s, err
	}
	defer func() { _ = conn.Close() }() // nothing waits for it
	o.Say("%d nodes at %s, %d entities; %d times: %s", o.Nodes, c.URL(), o.Load.Entities, o.Times, f.About)
	l := newLedgers(conn, o.Load.Entities, o.Load.Rate)
	defer l.end()
	live := follow(conn)
	defer live.end()
	if err := l.awaitTells(ctx, conn); err != nil {
		return s, err
	}
	for i := range o.Times {
		if err := until(ctx, "all entities have answered lately", func() bool { return l.answeredSince(time.Now().Add(-2 * l.tick)) }); err != nil {
			return s, err
		}
		d.Before = i
		r, err := l.strike(ctx, f, d)
		if err != nil {
			return s, fmt.Errorf("%s, strike %d: %w", f.Name, i+1, err)
		}
		s.Strikes = append(s.Strikes, r)
		if err := d.replace(ctx); err != nil {
			return s, err
		}
	}
	l.end()
	if s.Effects, err = l.judgeEffects(ctx, conn, live); err != nil {
		return s, err
	}
	if s.Lanes, err = countLanes(ctx, c, o); err != nil {
		return s, err
	}
	s.Calls, s.Failed, s.Lost, s.Doubled, s.Closed, s.Errors = l.calls, l.failed, l.lost, l.doubled, l.closed, l.errors
	return s, nil
}

// A DurableRun is a cluster with durable entities that are called all the time.
type DurableRun struct {
	crew                 // all nodes that are members
	Before int           // the number of strikes before this one
	Length time.Duration // of a strike
}

func (d *DurableRun) replace(ctx context.Context) error {
	for i, n := range d.Nodes {
		if !n.Ended() {
			continue
		}
		if err := d.grow(ctx, 1); err != nil {
			return err
		}
		last := len(d.Nodes) - 1
		d.Nodes[i], d.Nodes = d.Nodes[last], d.Nodes[:last]
	}
	return nil
}

// A Strike is one occurrence of a fault. It may still last.
type Strike struct {
	Victim string    // the node, nodes or server that were hit
	At     time.Time // recovery is measured from here
	// Nodes are the nodes whose entities are measured; nil means all entities.
	Nodes []*cluster.Node
	// End ends the strike, which lasts for Length from At on. Nil means that the strike has ended.
	Length time.Duration
	End    func(ctx context.Context) error
	// Stays says that Nodes remain, or may remain, members. Answers from them count once the strike
	// has ended.
	Stays bool
	// Slowest judges an entity by its slowest call, up to the first call made after the end,
	// instead of by the time of its next answer.
	Slowest bool
}

package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/witness"
	"github.com/shardgen/shardgen/internal/e2e/workload"
)

// remembered kills a node. Its remembered entities are activated elsewhere without a call.
var remembered = Fault{
	Name:    "remember",
	About:   "the process of a node with remembered entities that nobody calls is killed, with SIGKILL",
	Subject: OnRemembered,
	Times:   5,
	Limits:  Limits{Recovery: 2500 * time.Millisecond},
	Strike:  kill.Strike,
}

// An Again has, for repeated strikes on nodes with remembered entities, the times until these entities
// were activated again.
type Again struct {
	Fault    string
	Nodes    int
	Entities int
	Limit    time.Duration
	Strikes  []AgainStrike
	Lanes    *Lanes // not judged, because nobody calls
}

type AgainStrike struct {
	Victim  string
	Lived   int             // entities that lived there
	After   []time.Duration // when each of these lived again, sorted
	Doubled []string        // entities activated afresh more often than they died
}

func (a Again) Missed() (misses []string) {
	for i, r := range a.Strikes {
		if len(r.After) < r.Lived {
			misses = append(misses, fmt.Sprintf("strike %d: %d of %d entities are activated again", i+1, len(r.After), r.Lived))
		} else if last := r.last(); last > a.Limit {
			misses = append(misses, fmt.Sprintf("strike %d: all are activated again after %v, want at most %v", i+1, round(last), a.Limit))
		}
		if len(r.Doubled) > 0 {
			misses = append(misses, fmt.Sprintf("strike %d: %d entities live twice: %v", i+1, len(r.Doubled), r.Doubled[:min(3, len(r.Doubled))]))
		}
	}
	return misses
}

func (r AgainStrike) last() time.Duration {
	if len(r.After) == 0 {
		return 0
	}
	return r.After[len(r.After)-1]
}

func (a Again) Print(w io.Writer) error {
	var longest []time.Duration
	for i, r := range a.Strikes {
		var first, middle time.Duration
		if len(r.After) > 0 {
			first, middle = r.After[0], r.After[len(r.After)/2]
		}
		fmt.Fprintf(w, "%s %2d: %s, %d of its %d entities are activated again: the first after %v, half after %v, all after %v; twice: %d\n", a.Fault, i+1, r.Victim,
			len(r.After), r.Lived, first.Round(time.Millisecond), middle.Round(time.Millisecond), r.last().Round(time.Millisecond), len(r.Doubled))
		longest = append(longest, r.last())
	}
	slices.Sort(longest)
	_, err := fmt.Fprintf(w, "%s of one of %d nodes with %d entities, %d times: all are activated again after p50 %v, max %v\n", a.Fault, a.Nodes, a.Entities, len(a.Strikes),
		longest[len(longest)/2].Round(time.Millisecond), longest[len(longest)-1].Round(time.Millisecond))
	a.Lanes.print(w)
	return err
}

const pulseID = "pulse-"

// activated strikes nodes of an idle cluster. Victims are replaced between strikes.
func activated(ctx context.Context, c *cluster.Cluster, f Fault, o Options) (Outcome, error) {
	a, all := Again{Fault: f.Name, Nodes: o.Nodes, Entities: o.Load.Entities, Limit: f.Limits.Recovery}, &crew{Cluster: c}
	if err := all.grow(ctx, o.Nodes); err != nil {
		return a, err
	}
	if err := enliven(ctx, c, o.Load.Entities); err != nil {
		return a, err
	}
	o.Say("%d nodes at %s, %d entities; %d times: %s", o.Nodes, c.URL(), o.Load.Entities, o.Times, f.About)
	for i := range o.Times {
		at := i % o.Nodes // this includes the oldest node, which is the coordinator's
		if err := quiet(ctx, c); err != nil {
			return a, err
		}
		r, err := strikeRemembered(ctx, f, c, all.Nodes[at])
		if err != nil {
			return a, fmt.Errorf("%s %s: %w", f.Name, all.Nodes[at].Name(), err)
		}
		a.Strikes = append(a.Strikes, r)
		if err := all.grow(ctx, 1); err != nil {
			return a, err
		}
		all.Nodes[at], all.Nodes = all.Nodes[o.Nodes], all.Nodes[:o.Nodes]
	}
	var err error
	a.Lanes, err = countLanes(ctx, c, o)
	return a, err
}

func enliven(ctx context.Context, c *cluster.Cluster, entities int) error {
	conn, err := c.Dial(ctx, "client")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing waits for it
	pulses := workload.NewPulseClient(conn)
	for i := range entities {
		if _, err := pulses.Ref(fmt.Sprint(pulseID, i)).Beat(ctx); err != nil {
			return err
		}
	}
	return nil
}

func quiet(ctx context.Context, c *cluster.Cluster) error {
	var last []witness.Record
	since := time.Now()
	var failed error
	err := until(ctx, "nothing moves", func() bool {
		now, err := c.Witnessed()
		if failed = err; err != nil {
			return true
		}
		if len(now) != len(last) {
			last, since = now, time.Now()
		}
		return time.Since(since) > time.Second
	})
	return errors.Join(err, failed)
}

// homes returns the node of each entity's last activation, and how often each entity was activated
// with [shard.Fresh].
func homes(records []witness.Record) (at map[string]string, began map[string]int) {
	at, began = map[string]string{}, map[string]int{}
	for _, r := range records {
		if strings.HasPrefix(r.Entity, pulseID) {
			at[r.Entity] = r.Sender
			if r.Seq == workload.PulseBegan {
				began[r.Entity]++
			}
		}
	}
	return at, began
}

// strikeRemembered strikes once, and waits at most effectTimeout until the victim's entities are
// active again.
func strikeRemembered(ctx context.Context, f Fault, c *cluster.Cluster, victim *cluster.Node) (r AgainStrike, err error) {
	before, err := c.Witnessed()
	if err != nil {
		return r, err
	}
	r.Victim = victim.Name()
	lived, beganBefore := homes(before)
	for _, node := range lived {
		if node == r.Victim {
			r.Lived++
		}
	}
	at, err := f.Strike(victim)
	if err != nil {
		return r, err
	}
	limit, cancel := context.WithTimeoutCause(ctx, effectTimeout, errNoEffect)
	defer cancel()
	var after []witness.Record
	err = until(limit, "all are activated again", func() bool {
		if after, err = c.Witnessed(); err != nil {
			return true
		}
		again := 0
		_, began := homes(after)
		for e, node := range lived {
			if node == r.Victim && began[e] > beganBefore[e] {
				again++
			}
		}
		return again == r.Lived
	})
	if err != nil && !errors.Is(err, errNoEffect) {
		return r, err
	}
	if err := quiet(ctx, c); err != nil {
		return r, err
	}
	if after, err = c.Witnessed(); err != nil {
		return r, err
	}
	r.compare(after, lived, beganBefore, at)
	return r, nil
}

// compare sets r.After and r.Doubled. after holds all activation records so far.
func (r *AgainStrike) compare(after []witness.Record, lived map[string]string, before map[string]int, at time.Time) {
	_, began := homes(after)
	seen := map[string]bool{}
	for _, w := range after {
		if lived[w.Entity] == r.Victim && w.At > at.UnixNano() && w.Seq == workload.PulseBegan && !seen[w.Entity] {
			seen[w.Entity] = true
			r.After = append(r.After, time.Duration(w.At-at.UnixNano()))
		}
	}
	slices.Sort(r.After)
	for e, node := range lived {
		want := before[e]
		if node == r.Victim {
			want++
		}
		if began[e] > want {
			r.Doubled = append(r.Doubled, e)
		}
	}
	slices.Sort(r.Doubled)
}

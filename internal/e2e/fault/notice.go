package fault

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/node"
	"github.com/shardgen/shardgen/internal/e2e/process"
	shard "github.com/shardgen/shardgen/runtime"
)

// A Noticing has, for each strike, the times until idle nodes noticed the fault.
type Noticing struct {
	Fault   string
	Nodes   int
	Strikes []NoticedStrike
	Limit   time.Duration
}

// A NoticedStrike is one strike on a node. It says how long after the strike each other node
// noticed that.
type NoticedStrike struct {
	Victim string
	Seen   []Sight // by every other node, the earliest first
}

// A Sight says how long after the fault one node saw the victim downed or removed.
type Sight struct {
	Node  string
	After time.Duration
}

func (s NoticedStrike) last() time.Duration { return s.Seen[len(s.Seen)-1].After }

// Missed describes each strike that was noticed too late.
func (n Noticing) Missed() (misses []string) {
	for i, s := range n.Strikes {
		if s.last() > n.Limit {
			misses = append(misses, fmt.Sprintf("strike %d: noticed by all after %v, want at most %v", i+1, round(s.last()), n.Limit))
		}
	}
	return misses
}

func (n Noticing) Print(w io.Writer) error {
	var all []time.Duration
	within := 0
	for i, s := range n.Strikes {
		var seen []string
		for _, o := range s.Seen {
			seen = append(seen, fmt.Sprintf("%s %v", o.Node, o.After.Round(time.Millisecond)))
		}
		fmt.Fprintf(w, "%s %2d: %s, downed at %s\n", n.Fault, i+1, s.Victim, strings.Join(seen, ", "))
		all = append(all, s.last())
		if s.last() <= n.Limit {
			within++
		}
	}
	slices.Sort(all)
	_, err := fmt.Fprintf(w, "%s of one of %d nodes: downed on all others after p50 %v, max %v; within %v: %d of %d\n",
		n.Fault, n.Nodes, all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond), n.Limit, within, len(all))
	return err
}

// noticed strikes nodes of an idle cluster, and measures when all others have noticed. Victims are
// replaced between strikes.
func noticed(ctx context.Context, c *cluster.Cluster, f Fault, o Options) (Outcome, error) {
	result, all := Noticing{Fault: f.Name, Nodes: o.Nodes, Limit: f.Notice}, &crew{Cluster: c}
	o.Say("%d nodes that nobody calls, %d times", o.Nodes, o.Times)
	if err := all.grow(ctx, o.Nodes); err != nil {
		return result, err
	}
	for i := range o.Times {
		if err := agree(ctx, all.Nodes); err != nil {
			return result, err
		}
		// Old and young nodes take turns as victims. The oldest node is the leader and the
		// coordinator's.
		at := i % o.Nodes
		victim := all.Nodes[at]
		all.Nodes = slices.Delete(all.Nodes, at, at+1)
		s, err := strike(ctx, f, victim, all.Nodes)
		if err != nil {
			return result, fmt.Errorf("%s %s: %w", f.Name, victim.Name(), err)
		}
		result.Strikes = append(result.Strikes, s)
		if err := all.grow(ctx, 1); err != nil {
			return result, err
		}
	}
	return result, nil
}

// agree waits until each node has seen all others come up.
func agree(ctx context.Context, nodes []*cluster.Node) error {
	for _, n := range nodes {
		for _, o := range nodes {
			_, err := n.AwaitThat(ctx, "to see "+o.Name()+" up", func(e process.Event) bool {
				return e.Event == node.Saw && e.Member == o.Name() && e.Kind == shard.EventUp.String()
			})
			if err != nil && n != o {
				return err
			}
		}
	}
	return nil
}

// noticeTimeout bounds how long nodes may take to notice a strike.
const noticeTimeout = 30 * time.Second

func strike(ctx context.Context, f Fault, victim *cluster.Node, others []*cluster.Node) (NoticedStrike, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, noticeTimeout, fmt.Errorf("not within %v", noticeTimeout))
	defer cancel()
	at, err := f.Strike(victim)
	if err != nil {
		return NoticedStrike{}, err
	}
	s := NoticedStrike{Victim: victim.Name()}
	for _, n := range others {
		e, err := n.AwaitThat(ctx, "to see that "+victim.Name()+" is gone", func(e process.Event) bool {
			return givenUp(e) && e.Member == victim.Name()
		})
		if err != nil {
			return NoticedStrike{}, err
		}
		s.Seen = append(s.Seen, Sight{n.Name(), e.Time.Sub(at)})
	}
	slices.SortStableFunc(s.Seen, func(a, b Sight) int { return int(a.After - b.After) })
	return s, nil
}

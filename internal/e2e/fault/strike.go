package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/load"
	"github.com/shardgen/shardgen/internal/e2e/node"
	"github.com/shardgen/shardgen/internal/e2e/process"
	shard "github.com/shardgen/shardgen/runtime"
)

type victim struct {
	node   *cluster.Node
	since  time.Time
	living map[string]bool // the node's entities then
}

type strikes struct {
	*report
	cluster *cluster.Cluster
	load    *load.Load

	struck map[string]bool // names of nodes that may be removed
	all    []victim
	died   map[string]bool // entities of killed processes
}

// Strike records that these nodes are struck now. They may be removed, with their entities.
func (s *strikes) Strike(nodes ...*cluster.Node) (struck []victim) {
	for _, n := range nodes {
		s.struck[n.Name()] = true
		struck = append(struck, victim{n, time.Now(), s.load.LivingAt(n.Name())})
	}
	s.all = append(s.all, struck...)
	return struck
}

// mourn records as lost the state of the entities that a removed or ended victim had when it was
// last struck.
func (s *strikes) mourn() {
	last := make(map[*cluster.Node]victim)
	for _, v := range s.all {
		last[v.node] = v
	}
	for n, v := range last {
		if n.Ended() || !s.removal(n.Name(), v.since).IsZero() {
			s.Died(v.living)
		}
	}
}

// removal returns the earliest time, after the given one, at which a node reported the named
// process as downed or removed. It ignores the reports of nodes that were struck. It returns zero
// if no other node has reported the process.
func (s *strikes) removal(name string, after time.Time) (at time.Time) {
	for _, n := range s.cluster.Nodes() {
		if s.struck[n.Name()] {
			continue
		}
		for _, e := range n.Said() {
			if givenUp(e) && e.Member == name && e.Time.After(after) && (at.IsZero() || e.Time.Before(at)) {
				at = e.Time
			}
		}
	}
	return at
}

// changes counts how often, after the given time, nodes that were not struck saw a member come up
// or downed. It counts each change once.
func (s *strikes) changes(after time.Time) (n int) {
	seen := make(map[string]bool)
	for _, by := range s.cluster.Nodes() {
		if s.struck[by.Name()] {
			continue
		}
		times := make(map[string]int)
		for _, e := range by.Said() {
			if e.Event == node.Saw && e.Time.After(after) && (e.Kind == shard.EventDowned.String() || e.Kind == shard.EventUp.String()) {
				times[e.Kind+e.Member]++
				seen[fmt.Sprint(e.Kind, e.Member, times[e.Kind+e.Member])] = true
			}
		}
	}
	return len(seen)
}

// judgeHomes reports entities with two homes: turns at a victim after another process ran the
// entity. Do not call it for victims that got shards back.
func (s *strikes) judgeHomes(victims ...victim) error {
	first := make(map[string]int64) // when an entity first ran at a process that is no victim
	since := victims[0].since
	for _, n := range s.cluster.Nodes() {
		if slices.ContainsFunc(victims, func(v victim) bool { return v.node == n }) {
			continue
		}
		ran, err := n.Witnessed()
		if err != nil {
			return err
		}
		for _, call := range ran {
			if at, ok := first[call.Entity]; call.At > since.UnixNano() && (!ok || call.At < at) {
				first[call.Entity] = call.At
			}
		}
	}
	var last time.Time
	var taken []time.Duration
	stale := 0
	for _, v := range victims {
		ran, err := v.node.Witnessed()
		if err != nil {
			return err
		}
		own := make(map[string]bool)
		for _, call := range ran {
			own[call.Entity] = v.living[call.Entity]
			if at := time.Unix(0, call.At); at.After(last) {
				last = at
			}
			if at, ok := first[call.Entity]; ok && v.living[call.Entity] && call.At > at {
				if stale++; stale == 1 {
					s.Miss("%s ran call %d of %s to %s at %s, %v after another node had begun to run calls to it",
						v.node.Name(), call.Seq, call.Sender, call.Entity, time.Unix(0, call.At).Format("15:04:05.000"), round(time.Duration(call.At-at)))
				}
			}
		}
		for entity, its := range own {
			if at, ok := first[entity]; its && ok {
				taken = append(taken, time.Unix(0, at).Sub(since))
			}
		}
	}
	if stale > 1 {
		s.Miss("%d calls ran at two homes", stale)
	}
	slices.Sort(taken)
	if len(taken) > 0 {
		s.Note("last turn at %s %v after the fault; their entities ran elsewhere after %v to %v; turns at two homes: %d",
			names(victims), round(last.Sub(since)), round(taken[0]), round(taken[len(taken)-1]), stale)
	} else {
		s.Note("last turn at %s %v after the fault; none of their entities ran elsewhere", names(victims), round(last.Sub(since)))
	}
	return nil
}

func names(victims []victim) string {
	var all []string
	for _, v := range victims {
		all = append(all, v.node.Name())
	}
	return strings.Join(all, " and ")
}

// removed returns a miss for each node that was removed, or ended, although it was not struck.
func (s *strikes) removed() (misses []string) {
	for _, n := range s.cluster.Nodes() {
		for _, e := range n.Said() {
			if givenUp(e) && !s.struck[e.Member] {
				misses = append(misses, fmt.Sprintf("%s saw %s %s at %s", n.Name(), e.Member, e.Kind, e.Time.Format("15:04:05.000")))
			}
		}
		if !s.struck[n.Name()] && n.Ended() {
			misses = append(misses, n.Name()+" has ended (see its log)")
		}
	}
	return misses
}

func givenUp(e process.Event) bool {
	return e.Event == node.Saw && (e.Kind == shard.EventDowned.String() || e.Kind == shard.EventRemoved.String())
}

// Died records that the process of these entities was killed, so their state is lost.
func (s *strikes) Died(entities map[string]bool) {
	for e := range entities {
		s.died[e] = true
	}
}

// noteRemoval adds a note on whether the victim was removed. It reports a miss if the victim was
// cut off for certainlyRemoved or longer and was not removed.
func (s *strikes) noteRemoval(prefix string, v victim, length time.Duration) {
	switch at := s.removal(v.node.Name(), v.since); {
	case !at.IsZero():
		s.Note("%s%s was given up %v after the fault", prefix, v.node.Name(), round(at.Sub(v.since)))
	case length >= certainlyRemoved:
		s.Miss("%sno node removed %s", prefix, v.node.Name())
	default:
		s.Note("%sno node removed %s", prefix, v.node.Name())
	}
}

// judgeStrikes judges the homes after each strike that ended its victim.
func (s *strikes) judgeStrikes(k *restarter) error {
	removed := 0
	for i, v := range s.all {
		again := i+1 < len(s.all) && s.all[i+1].node == v.node
		if again || !v.node.Ended() {
			continue // it stayed: shards may have come back to it
		}
		removed++
		if err := s.judgeHomes(v); err != nil {
			return err
		}
	}
	s.Note("%d of %d times the victim was removed, and %d processes were started in its place", removed, len(s.all), k.total())
	return nil
}

// judgeStopped reports turns of victims later than stopLimit after the cut.
func (s *strikes) judgeStopped(victims []victim, length time.Duration) error {
	if length < certainlyRemoved {
		return nil // too short to tell
	}
	for _, v := range victims {
		ran, err := v.node.Witnessed()
		if err != nil {
			return err
		}
		late := 0
		for _, call := range ran {
			if time.Unix(0, call.At).Sub(v.since) > stopLimit {
				late++
			}
		}
		if late > 0 {
			s.Miss("%s ran %d calls later than %v after it was cut off", v.node.Name(), late, stopLimit)
		}
	}
	return nil
}

// awaitMoved waits until the victim's entities answer elsewhere.
func awaitMoved(ctx context.Context, r *Run) error {
	name := r.Victim.Name()
	return r.Until(ctx, "its entities answer elsewhere", func() bool { return r.Load.LastSeen()[name] == 0 })
}

type restarter struct {
	cluster  *cluster.Cluster
	restarts map[string]int
	stop     chan struct{}
	wg       sync.WaitGroup

	mu  sync.Mutex
	now map[string]*cluster.Node
	err error
}

func keepUp(c *cluster.Cluster, nodes ...*cluster.Node) *restarter {
	k := &restarter{cluster: c, stop: make(chan struct{}), restarts: make(map[string]int), now: make(map[string]*cluster.Node)}
	for _, n := range nodes {
		k.now[n.Name()] = n
		k.wg.Go(func() { k.watch(n) })
	}
	return k
}

// restartAfter is the pause before a restart.
const restartAfter = 500 * time.Millisecond

func (k *restarter) watch(n *cluster.Node) {
	timer := time.NewTimer(restartAfter)
	defer timer.Stop()
	for {
		select {
		case <-n.Done():
		case <-k.stop:
			return
		}
		timer.Reset(restartAfter)
		select {
		case <-timer.C:
		case <-k.stop:
			return
		}
		again, err := k.cluster.Launch(n.Name())
		k.mu.Lock()
		if err != nil {
			k.err = err
			k.mu.Unlock()
			return
		}
		k.restarts[n.Name()]++
		k.now[n.Name()] = again
		k.mu.Unlock()
		n = again
	}
}

// end stops restarting. It may be called twice.
func (k *restarter) end() error {
	k.mu.Lock()
	select {
	case <-k.stop:
	default:
		close(k.stop)
	}
	k.mu.Unlock()
	k.wg.Wait()
	return k.err
}

func (k *restarter) node(name string) *cluster.Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now[name]
}

func (k *restarter) total() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, restarts := range k.restarts {
		n += restarts
	}
	return n
}

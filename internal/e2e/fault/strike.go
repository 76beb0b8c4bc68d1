package fault

import (
	"context"
	"fmt"
	"maps"
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

// A victim is a process that something is done to from some time on.
type victim struct {
	node   *cluster.Node
	since  time.Time
	living map[string]bool // its entities then
}

// Strike notes that something happens to these nodes now: they may be removed, and
// their entities are lost then.
func (r *Run) Strike(nodes ...*cluster.Node) (struck []victim) {
	for _, n := range nodes {
		r.struck[n.Name()] = true
		struck = append(struck, victim{n, time.Now(), r.Load.LivingAt(n.Name())})
	}
	r.strikes = append(r.strikes, struck...)
	return struck
}

// mourn notes the entities that were lost with the victims that were removed. A process that was
// struck several times counts as it was the last time.
func (r *Run) mourn() {
	last := make(map[*cluster.Node]victim)
	for _, v := range r.strikes {
		last[v.node] = v
	}
	for n, v := range last {
		if n.Ended() || !r.removal(n.Name(), v.since).IsZero() {
			r.Died(v.living)
		}
	}
}

// removal is when another node than those that were struck saw that a process of
// this name is no member any more, after the given time; zero if none did.
func (r *Run) removal(name string, after time.Time) (at time.Time) {
	for _, n := range r.Cluster.Nodes() {
		if r.struck[n.Name()] {
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

// views counts how often the surviving nodes together saw their members change
// after a time: changes that they see at the same moment are one.
func (r *Run) changes(after time.Time) (n int) {
	seen := make(map[string]bool)
	for _, by := range r.Cluster.Nodes() {
		if r.struck[by.Name()] {
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

// judgeOwners looks for turns that ran at a victim after another process had begun
// to run its entities: two homes of one entity. It also notes how long the victims
// went on, and when their entities ran elsewhere. Victims must not have been given
// anything back after they were struck.
func (r *Run) judgeOwners(victims ...victim) error {
	first := make(map[string]int64) // when an entity first ran at a process that is no victim
	since := victims[0].since
	for _, n := range r.Cluster.Nodes() {
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
					r.Miss("%s ran call %d of %s to %s at %s, %v after another node had begun to run calls to it",
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
		r.Miss("%d calls ran at two homes", stale)
	}
	slices.Sort(taken)
	if len(taken) > 0 {
		r.Note("last turn at %s %v after the fault; their entities ran elsewhere after %v to %v; turns at two homes: %d",
			names(victims), round(last.Sub(since)), round(taken[0]), round(taken[len(taken)-1]), stale)
	} else {
		r.Note("last turn at %s %v after the fault; none of their entities ran elsewhere", names(victims), round(last.Sub(since)))
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

// A keeper starts nodes again that have ended, under their names, as an
// orchestrator does.
type keeper struct {
	run      *Run
	restarts map[string]int
	stop     chan struct{}
	wg       sync.WaitGroup

	mu  sync.Mutex
	now map[string]*cluster.Node
	err error
}

// keep starts these nodes again as soon as they end, until the returned keeper is
// told to stop.
func (r *Run) keep(nodes ...*cluster.Node) *keeper {
	k := &keeper{run: r, stop: make(chan struct{}), restarts: make(map[string]int), now: make(map[string]*cluster.Node)}
	for _, n := range nodes {
		k.now[n.Name()] = n
		k.wg.Go(func() { k.watch(n) })
	}
	return k
}

// restartAfter is how soon an ended process is started again.
const restartAfter = 500 * time.Millisecond

func (k *keeper) watch(n *cluster.Node) {
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
		again, err := k.run.Cluster.Launch(n.Name())
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

// end stops keeping nodes, and returns an error if one could not be started. It
// may be called twice.
func (k *keeper) end() error {
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

// node is the process that has the name now.
func (k *keeper) node(name string) *cluster.Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now[name]
}

// total is how many processes were started again so far.
func (k *keeper) total() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, restarts := range k.restarts {
		n += restarts
	}
	return n
}

// agreement is the view on which so many processes that have not ended agree, and
// since when.
func (r *Run) agreement(nodes int) (view string, since time.Time, ok bool) {
	running := 0
	for _, n := range r.Cluster.Nodes() {
		if n.Ended() {
			continue
		}
		running++
		e, said := lastAgreed(n)
		if !said || e.View == "" || view != "" && view != e.View {
			return "", time.Time{}, false
		}
		view = e.View
		if e.Time.After(since) {
			since = e.Time
		}
	}
	return view, since, running == nodes && strings.Count(view, "#") == nodes+1
}

func lastAgreed(n *cluster.Node) (e process.Event, ok bool) {
	said := n.Said()
	for i := len(said) - 1; i >= 0; i-- {
		if said[i].Event == node.Agreed {
			return said[i], true
		}
	}
	return e, false
}

// oneView waits until all nodes of the run are members again and agree, and
// judges how long that took from a time on.
func (r *Run) oneView(ctx context.Context, from time.Time, limit time.Duration) error {
	err := r.Until(ctx, "all have one view", func() bool {
		_, _, ok := r.agreement(len(r.Nodes))
		return ok
	})
	if err != nil {
		return err
	}
	_, since, _ := r.agreement(len(r.Nodes))
	took := max(0, since.Sub(from))
	r.Note("all %d nodes had one view again %v after the end of the fault", len(r.Nodes), round(took))
	if took > limit {
		r.Miss("one view after %v, want at most %v", round(took), limit)
	}
	return nil
}

// leastStill is how long entities must have stayed where they are to be taken for
// spread, besides the time in which each is called.
const leastStill = 2 * time.Second

// spread waits until the nodes of the run have their share of the entities and none
// moves any more, so that the entities of each node are known.
func (r *Run) spread(ctx context.Context) error {
	var seen map[string]string
	var since time.Time
	err := r.Until(ctx, "every node has its share and keeps it", func() bool {
		if !r.settled() || r.Load.Unseen() > 0 {
			seen = nil
			return false
		}
		if now := r.Load.Seen(); seen == nil || !maps.Equal(seen, now) {
			seen, since = now, time.Now()
		}
		return time.Since(since) > r.Load.Tick()+leastStill
	})
	if err != nil {
		return fmt.Errorf("%w (%s)", err, load.Describe(r.Load.Homes()))
	}
	return nil
}

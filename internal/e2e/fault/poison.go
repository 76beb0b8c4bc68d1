package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/load"
	"github.com/shardgen/shardgen/internal/e2e/node"
	"github.com/shardgen/shardgen/internal/e2e/process"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// poison makes some entities panic at every call, and one entity loop and occupy a core. Calls to
// the panicking entities wait for a restart by their supervisor. The looping entity's mailbox is
// full. Other entities on the node are served as before.
//
// A foreign process computes before the fault, to show how much delay comes from having few cores.
var poison = Fault{
	Name:    "poison",
	About:   "for 30s ten entities panic at every call, and one loops for ever; for 30s before, a foreign process loops",
	Nodes:   5,
	Length:  30 * time.Second,
	Lengths: 2,
	Rate:    1000, // the loop takes one core of the machine
	Spares:  true,
	Limits:  Limits{Pause: unjudged, Recovery: unjudged, Neighbours: 1.5},
	Within:  time.Minute,
	Inject: func(ctx context.Context, r *Run) error {
		conn, err := r.Cluster.Dial(ctx, "poisoner")
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }() // a process of this run: nothing depends on it
		p := poisoner{entities: workload.NewPoisonClient(conn)}
		home, err := p.entities.Ref(looping).Where(ctx)
		if err != nil {
			return err
		}
		beside := neighbours{home: home, quiet: time.Now()}
		if err := r.Sleep(ctx, min(r.Length, quietTime)); err != nil {
			return err
		}
		beside.foreign = time.Now()
		if err := besideForeign(ctx, r); err != nil {
			return err
		}
		r.Begin()
		beside.seen = r.Load.Seen()
		if err := p.run(ctx, r.Length); err != nil {
			return err
		}
		p.judge(r)
		beside.judge(r)
		return nil
	},
}

// besideForeign runs a computing process outside the cluster for the length of the fault, at the
// nodes' priority.
func besideForeign(ctx context.Context, r *Run) (err error) {
	foreign, err := process.Start("the foreign process", os.Stderr, r.options.Cluster.Program, node.SpinArgs()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, foreign.Kill()) }()
	if err := foreign.Await(ctx, node.Spinning); err != nil {
		return err
	}
	return r.Sleep(ctx, r.Length)
}

const (
	looping     = "looping"
	panicking   = 10              // entities
	poisonTo    = 5 * time.Second // the deadline of each call
	poisonEvery = 100 * time.Millisecond
	quietTime   = 10 * time.Second
)

type poisoner struct {
	entities *workload.PoisonClient

	panics, waited, refused atomic.Int64 // calls of the panicking entities
	looped, full            atomic.Int64 // calls of the looping entity

	mu  sync.Mutex
	bad error // an unexpected answer
}

func (p *poisoner) run(ctx context.Context, long time.Duration) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(poisonEvery)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < long; {
		for i := range panicking {
			wg.Go(func() { p.panic(ctx, i) })
		}
		wg.Go(func() { p.loop(ctx) })
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (p *poisoner) panic(ctx context.Context, i int) {
	ctx, cancel := context.WithTimeout(ctx, poisonTo)
	defer cancel()
	err := p.entities.Ref(fmt.Sprint("panicking-", i)).Panic(ctx)
	switch {
	case errors.Is(err, shard.ErrPanic):
		p.panics.Add(1)
	case errors.Is(err, shard.ErrOverloaded):
		p.refused.Add(1)
	case errors.Is(err, context.DeadlineExceeded):
		p.waited.Add(1)
	default:
		p.note(fmt.Errorf("call a method that panics: got %w, want ErrPanic, ErrOverloaded or a timeout", err))
	}
}

func (p *poisoner) loop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, poisonTo)
	defer cancel()
	err := p.entities.Ref(looping).Loop(ctx)
	switch {
	case errors.Is(err, shard.ErrOverloaded):
		p.full.Add(1)
	case errors.Is(err, context.DeadlineExceeded):
		p.looped.Add(1)
	default:
		p.note(fmt.Errorf("call a method that loops: got %w, want ErrOverloaded or a timeout", err))
	}
}

func (p *poisoner) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bad == nil {
		p.bad = err
	}
}

func (p *poisoner) judge(r *Run) {
	r.Note("of the entities that panic: %d panics, %d calls refused and %d not answered in time while the supervisor kept them waiting; of the one that loops: %d calls without an answer, %d refused",
		p.panics.Load(), p.refused.Load(), p.waited.Load(), p.looped.Load(), p.full.Load())
	if p.bad != nil {
		r.Miss("%v", p.bad)
	}
	if p.panics.Load() == 0 || p.looped.Load() == 0 {
		r.Miss("no call panicked, or none looped: the fault did not happen")
	}
}

type neighbours struct {
	seen    map[string]string // nodes by entity
	home    string            // of the looping entity
	quiet   time.Time         // the begin of the time before the poison
	foreign time.Time         // when the foreign process began to compute
}

// judge compares the latencies of the entities that are not poisoned at three times: before the
// fault, while the foreign process computes, and while the poison acts. The entities at the node of
// the loop are judged apart from those at the other nodes. A call counts for the node of its
// entity, even if a relay at another node makes the call.
func (n neighbours) judge(r *Run) {
	now := time.Now()
	s := slowdown{processors: runtime.GOMAXPROCS(0), needed: processorsFor(len(r.Nodes), len(r.Cluster.Servers()))}
	if s.crowded() {
		r.Note("%d processors, and %d are needed for each process and the loop to have one: p99 is judged against that beside a foreign process that loops", s.processors, s.needed)
	}
	there := make(map[string]bool)
	for entity, at := range n.seen {
		there[entity] = at == n.home
	}
	for _, beside := range []bool{true, false} {
		which := func(entity string) bool { return load.Concerns(there, entity) == beside }
		_, s.quiet = r.Load.Latency(n.quiet, n.foreign, which)
		_, s.foreign = r.Load.Latency(n.foreign, r.began, which)
		_, s.poisoned = r.Load.Latency(r.began, now, which)
		s.where = "at the node of the loop"
		if !beside {
			s.where = "at the other nodes"
		}
		s.judge(r.report, r.limits.Neighbours)
	}
}

// processorsFor returns how many processors suffice for a loop to delay no other work: one for each
// node and server, the caller and the loop.
func processorsFor(nodes, servers int) int { return nodes + servers + 2 }

// A slowdown has three p99 latencies: before the fault, beside a foreign loop, and beside the
// poison.
type slowdown struct {
	where              string
	processors, needed int
	quiet              time.Duration // before
	foreign            time.Duration // beside a foreign process that loops
	poisoned           time.Duration
}

// crowded reports whether the loop takes a processor that others need.
func (s slowdown) crowded() bool { return s.processors < s.needed }

// judge reports a miss if the p99 beside the poison exceeds limit times the p99 before the fault.
// If crowded, it takes the p99 beside the foreign process instead. Limit 0 means no limit.
func (s slowdown) judge(r *report, limit float64) {
	foreign, poisoned, added := ratio(s.foreign, s.quiet), ratio(s.poisoned, s.quiet), ratio(s.poisoned, s.foreign)
	r.Note("p99 of the other entities %s: %v before, %v beside a foreign process that loops (%.2f times), %v beside the poison (%.2f times; %.2f times that beside the foreign process)",
		s.where, round(s.quiet), round(s.foreign), foreign, round(s.poisoned), poisoned, added)
	times, than := poisoned, "what it was"
	if s.crowded() {
		times, than = added, "that beside the foreign process"
	}
	if limit > 0 && times > limit {
		r.Miss("p99 of the other entities %s is %.2f times %s, want at most %.1f", s.where, times, than, limit)
	}
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }

package fault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// poison: some entities panic at every call, and one has a method that never comes
// to an end and takes a core of its process. All of them are called again and
// again. Their supervisor keeps the first ones waiting, the mailbox of the last one
// is full, and those beside them are served as ever.
var poison = Fault{
	Name:   "poison",
	About:  "for 30s ten entities panic at every call, and one loops for ever",
	Nodes:  5,
	Length: 30 * time.Second,
	Rate:   1000, // the loop takes one core of the machine
	Spares: true,
	Limits: Limits{Pause: unjudged, Recovery: unjudged, Neighbours: 1.5},
	Within: time.Minute,
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

const (
	looping   = "looping"
	panicking = 10              // entities
	poisonTo  = 5 * time.Second // the deadline of each call
	// poisonEvery is how often each poisoned entity is called.
	poisonEvery = 100 * time.Millisecond
	quietTime   = 10 * time.Second
)

// A poisoner calls poisoned entities and counts their answers.
type poisoner struct {
	entities *workload.PoisonClient

	panics, waited, refused atomic.Int64 // of those that panic
	looped, full            atomic.Int64 // of the one that loops

	mu  sync.Mutex
	bad error // an answer that is none of those
}

// run calls all poisoned entities for a while.
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
		p.note(fmt.Errorf("a method that panics answered %w", err))
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
		p.note(fmt.Errorf("a method that loops answered %w", err))
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
		r.Miss("nothing panicked or nothing looped")
	}
}

// neighbours are the entities that are not poisoned.
type neighbours struct {
	seen  map[string]string // the node of each
	home  string            // of the looping entity
	quiet time.Time         // the begin of the time before the poison
}

// judge compares how long calls to the other entities took before and
// during the poison, at the node of the looping entity and at the other nodes.
func (n neighbours) judge(r *Run) {
	now := time.Now()
	for _, beside := range []bool{true, false} {
		which := func(entity string) bool {
			return (n.seen[entity] == n.home) == beside
		}
		_, quiet := r.Load.Latency(n.quiet, r.began, which)
		_, during := r.Load.Latency(r.began, now, which)
		where := "at the node of the loop"
		if !beside {
			where = "at the other nodes"
		}
		times := float64(during) / float64(max(quiet, 1))
		r.Note("p99 of the other entities %s: %v before, %v meanwhile (%.2f times)", where, round(quiet), round(during), times)
		if r.limits.Neighbours > 0 && times > r.limits.Neighbours {
			r.Miss("p99 of the other entities %s is %.2f times what it was, want at most %.1f", where, times, r.limits.Neighbours)
		}
	}
}

package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// reminders strikes nodes while reminders are due, at equal intervals over a minute. In turn a node
// is killed, stopped for a second, or leaves.
var reminders = Fault{
	Name:    "reminders",
	About:   "a node is killed, stopped for a second or leaves while reminders are due",
	Subject: OnReminders,
	Nodes:   5,
	Times:   30,
	Length:  time.Minute,
	Limits:  Limits{Lost: 0, Doubled: 0, Recovery: 3 * time.Second},
}

const (
	remindersEach = 10               // for each bell
	maxLate       = 10 * time.Second // of any reminder
)

// Rung has the figures of a run with reminders.
type Rung struct {
	Fault                string
	Nodes, Strikes       int
	Reminders            int
	Lost, Doubled, Early int
	Limits               Limits
	Late                 []time.Duration // ascending
	SetIn                time.Duration
}

func (r Rung) percentile(n int) time.Duration {
	if len(r.Late) == 0 {
		return 0
	}
	return r.Late[min(len(r.Late)*n/100, len(r.Late)-1)]
}

func (r Rung) Missed() (misses []string) {
	if r.Lost > r.Limits.Lost || r.Doubled > r.Limits.Doubled || r.Early > 0 {
		misses = append(misses, fmt.Sprintf("%d lost, %d doubled, %d early: want none", r.Lost, r.Doubled, r.Early))
	}
	if p := r.percentile(99); p > r.Limits.Recovery {
		misses = append(misses, fmt.Sprintf("late by %v, p99, want at most %v", round(p), r.Limits.Recovery))
	}
	if p := r.percentile(100); p > maxLate {
		misses = append(misses, fmt.Sprintf("late by %v, want at most %v", round(p), maxLate))
	}
	return misses
}

func (r Rung) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: %d reminders of %d nodes, set in %v, with %d strikes: lost=%d doubled=%d early=%d, late p50 %v, p99 %v, max %v\n",
		r.Fault, r.Reminders, r.Nodes, round(r.SetIn), r.Strikes, r.Lost, r.Doubled, r.Early, r.percentile(50), r.percentile(99), r.percentile(100))
	return err
}

func reminded(ctx context.Context, c *cluster.Cluster, f Fault, o Options) (Outcome, error) {
	r := Rung{Fault: f.Name, Nodes: o.Nodes, Limits: f.Limits, Reminders: o.Load.Entities * remindersEach}
	d := &DurableRun{crew: crew{Cluster: c}, Length: o.Length}
	if err := d.grow(ctx, o.Nodes); err != nil {
		return r, err
	}
	conn, err := c.Dial(ctx, "client")
	if err != nil {
		return r, err
	}
	defer func() { _ = conn.Close() }() // nothing waits for it
	bells := workload.NewBellClient(conn)
	o.Say("%d nodes at %s, %d reminders; %d times: %s", o.Nodes, c.URL(), r.Reminders, o.Times, f.About)
	began := time.Now()
	first := began.Add(time.Duration(r.Reminders)*time.Millisecond/4 + 3*time.Second) // all reminders are set by then
	if err := eachBell(o.Load.Entities, func(bell int) error {
		for n := range remindersEach {
			i := n*o.Load.Entities + bell
			due := first.Add(o.Length * time.Duration(i) / time.Duration(r.Reminders))
			if err := bells.Tell(bellName(bell), shard.At(due), shard.Named(fmt.Sprint(n))).Ring(ctx); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return r, err
	}
	if r.SetIn = time.Since(began); time.Now().After(first) {
		return r, fmt.Errorf("setting the reminders took %v, too long for this run", r.SetIn)
	}
	if err := sleep(ctx, time.Until(first)); err != nil {
		return r, err
	}
	o.Say("the first reminder is due")
	for i := range o.Times {
		if err := d.disturb(ctx, i); err != nil {
			return r, err
		}
		if r.Strikes++; time.Now().After(first.Add(o.Length)) {
			break
		}
		next := first.Add(o.Length * time.Duration(i+1) / time.Duration(o.Times))
		if err := sleep(ctx, time.Until(next)); err != nil {
			return r, err
		}
	}
	for until := first.Add(o.Length + maxLate + 5*time.Second); ; {
		if err := sleep(ctx, time.Second); err != nil { // to count reminders that run twice
			return r, err
		}
		r.Lost, r.Doubled, r.Early, r.Late = 0, 0, 0, nil
		var mu sync.Mutex
		err = eachBell(o.Load.Entities, func(bell int) error {
			rings, err := bells.Ref(bellName(bell)).Rung(ctx)
			mu.Lock()
			defer mu.Unlock()
			r.judge(rings)
			return err
		})
		if err != nil || r.Lost == 0 && time.Now().After(first.Add(o.Length)) || time.Now().After(until) {
			slices.Sort(r.Late)
			return r, err
		}
	}
}

func (r *Rung) judge(rings []workload.Ring) {
	times := map[string]int{}
	for _, ring := range rings {
		if times[ring.Name]++; times[ring.Name] > 1 {
			r.Doubled++
		}
		if ring.Late < 0 {
			r.Early++
		}
		r.Late = append(r.Late, time.Duration(ring.Late)*time.Millisecond)
	}
	r.Lost += remindersEach - len(times)
}

// disturb kills a node, stops a node for a second, or lets a node leave. It replaces a node that
// ends.
func (d *DurableRun) disturb(ctx context.Context, i int) error {
	victim := d.Nodes[i%len(d.Nodes)]
	switch i % 6 {
	case 2:
		if err := victim.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		err := sleep(ctx, time.Second)
		return errors.Join(err, victim.Signal(syscall.SIGCONT))
	case 5:
		if err := d.Cluster.Leave(ctx, victim); err != nil {
			return err
		}
	default:
		if err := victim.Kill(); err != nil {
			return err
		}
	}
	return d.replace(ctx)
}

func bellName(i int) string { return fmt.Sprint("bell", i) }

// eachBell calls f for all bells, a few at a time.
func eachBell(n int, f func(bell int) error) error {
	const atOnce = 256
	var group sync.WaitGroup
	errs := make([]error, atOnce)
	for at := range atOnce {
		group.Go(func() {
			for i := at; i < n && errs[at] == nil; i += atOnce {
				errs[at] = f(i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

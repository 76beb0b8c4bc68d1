package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// A Survival is the outcome of faults struck again and again on nodes with durable entities.
type Survival struct {
	Fault                 string
	Nodes, Entities       int
	Calls                 int
	Failed, Lost, Doubled int
	Limits                Limits
	Rounds                []SurvivalRound
	Errors                []string // the first that callers got
}

// SurvivalRound is one strike.
type SurvivalRound struct {
	Victim string          // the node, nodes or server that were hit
	After  []time.Duration // when each entity that it concerned answered again, or how long it took to; sorted
}

// p99 is the time within which 99 of 100 entities answered again.
func (r SurvivalRound) p99() time.Duration {
	if len(r.After) == 0 {
		return 0
	}
	return r.After[min(len(r.After)*99/100, len(r.After)-1)]
}

// Missed names the figures that are over the limits.
func (s Survival) Missed() (misses []string) {
	for _, c := range []struct {
		what      string
		got, most int
	}{{"failed", s.Failed, s.Limits.Failed}, {"lost", s.Lost, s.Limits.Lost}, {"doubled", s.Doubled, s.Limits.Doubled}} {
		if c.got > c.most {
			misses = append(misses, fmt.Sprintf("%s: %d, want at most %d", c.what, c.got, c.most))
		}
	}
	for i, r := range s.Rounds {
		if p := r.p99(); p > s.Limits.Recovery {
			misses = append(misses, fmt.Sprintf("time %d: entities answer after %v, p99, want at most %v", i+1, round(p), s.Limits.Recovery))
		}
	}
	return misses
}

// Print writes each round, and the figures over all of them.
func (s Survival) Print(w io.Writer) error {
	for i, r := range s.Rounds {
		var last time.Duration
		if n := len(r.After); n > 0 {
			last = r.After[n-1]
		}
		fmt.Fprintf(w, "%s %2d: %s, %d entities answer again: p99 after %v, all after %v\n", s.Fault, i+1, r.Victim, len(r.After),
			r.p99().Round(time.Millisecond), last.Round(time.Millisecond))
	}
	_, err := fmt.Fprintf(w, "%s of %d nodes with %d entities, %d times: calls=%d failed=%d lost=%d doubled=%d\n",
		s.Fault, s.Nodes, s.Entities, len(s.Rounds), s.Calls, s.Failed, s.Lost, s.Doubled)
	for _, e := range s.Errors {
		fmt.Fprintln(w, e)
	}
	for _, m := range s.Missed() {
		fmt.Fprintln(w, "miss:", m)
	}
	return err
}

// Durable makes the fault happen again and again to a cluster with durable entities that
// are called all the time. Nodes that end are replaced before the next time. ctx bounds the
// run.
func Durable(ctx context.Context, f Fault, o Options) (s Survival, err error) {
	o = o.withDefaults(f)
	o.Cluster.Durable = true
	if err := o.Validate(f); err != nil {
		return s, err
	}
	c, err := cluster.New(o.Cluster)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	d := &DurableRun{Cluster: c, Length: o.Length}
	for range o.Nodes {
		if err := d.start(ctx); err != nil {
			return s, err
		}
	}
	conn, err := c.Dial(ctx, "client")
	if err != nil {
		return s, err
	}
	defer func() { _ = conn.Close() }() // nothing waits for it
	o.Say("%d nodes at %s, %d entities; %d times: %s", o.Nodes, c.URL(), o.Load.Entities, o.Times, f.About)
	l := newLedgers(conn, o.Load.Entities, o.Load.Rate)
	defer l.end()
	for i := range o.Times {
		if err := until(ctx, "all entities have answered lately", func() bool { return l.answeredSince(time.Now().Add(-2 * l.tick)) }); err != nil {
			return s, err
		}
		d.Round = i
		r, err := l.strike(ctx, f, d)
		if err != nil {
			return s, fmt.Errorf("%s, time %d: %w", f.Name, i+1, err)
		}
		s.Rounds = append(s.Rounds, r)
		if err := d.replace(ctx); err != nil {
			return s, err
		}
	}
	l.end()
	s.Fault, s.Nodes, s.Entities, s.Limits = f.Name, o.Nodes, o.Load.Entities, f.Limits
	s.Calls, s.Failed, s.Lost, s.Doubled, s.Errors = l.calls, l.failed, l.lost, l.doubled, l.errors
	return s, nil
}

// ledgers are durable entities that are called all the time, each by one caller.
type ledgers struct {
	tick time.Duration // between two calls of an entity
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu                           sync.Mutex
	all                          []ledger
	calls, failed, lost, doubled int
	errors                       []string
}

// A ledger is the state of an entity as its caller knows it.
type ledger struct {
	node     string        // where it lived at the last answer
	answered time.Time     // when that was
	made     time.Time     // when that call was made
	slowest  time.Duration // of its calls since the last blow
	sum      int64         // that it has
	unsure   int64         // that it may have more
}

// ledgerPatience bounds one call.
const ledgerPatience = 20 * time.Second

// newLedgers begins to call.
func newLedgers(caller shard.Caller, entities, rate int) *ledgers {
	ctx, stop := context.WithCancel(context.Background())
	l := &ledgers{tick: time.Second * time.Duration(entities) / time.Duration(rate), stop: stop, all: make([]ledger, entities)}
	client := workload.NewLedgerClient(caller)
	for i := range entities {
		r := client.Ref(fmt.Sprint("ledger-", i), shard.Timeout(ledgerPatience))
		l.wg.Go(func() {
			wait := time.NewTimer(l.tick * time.Duration(i) / time.Duration(entities))
			defer wait.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-wait.C:
				}
				wait.Reset(l.tick)
				made := time.Now()
				total, node, err := r.Add(context.Background(), 1)
				l.note(i, made, total, node, err)
			}
		})
	}
	return l
}

// end lets the calls under way end and makes no more. It may be called again.
func (l *ledgers) end() {
	l.stop()
	l.wg.Wait()
}

// note compares an answer with the caller's ledger.
func (l *ledgers) note(i int, made time.Time, total int64, node string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.all[i]
	l.calls++
	e.slowest = max(e.slowest, time.Since(made))
	if err != nil {
		l.failed++
		if len(l.errors) < 10 {
			l.errors = append(l.errors, err.Error())
		}
		if shard.OutcomeOf(err) != shard.NotExecuted {
			e.unsure++
		}
		return
	}
	e.sum++
	l.lost += int(max(e.sum-total, 0))
	l.doubled += int(max(total-e.sum-e.unsure, 0))
	e.sum, e.unsure, e.node, e.made, e.answered = total, 0, node, made, time.Now()
}

func (l *ledgers) answeredSince(t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(l.all, func(e ledger) bool { return e.answered.Before(t) })
}

// strike makes the fault happen once and waits until all entities that it concerns answer.
func (l *ledgers) strike(ctx context.Context, f Fault, d *DurableRun) (r SurvivalRound, err error) {
	l.mu.Lock()
	for i := range l.all {
		l.all[i].slowest = 0
	}
	l.mu.Unlock()
	b, err := f.Hit(ctx, d)
	if err != nil {
		return r, err
	}
	r.Victim = b.Victim
	hit := make(map[string]bool)
	for _, n := range b.Nodes {
		hit[n.Name()] = true
	}
	l.mu.Lock()
	var there []int
	for i := range l.all {
		if b.Nodes == nil || hit[l.all[i].node] {
			there = append(there, i)
		}
	}
	l.mu.Unlock()
	after := map[int]time.Duration{}
	ended := b.At
	var endErr error
	err = until(ctx, "its entities answer", func() bool {
		if b.End != nil && time.Since(b.At) >= b.Length {
			endErr = b.End(ctx)
			b.End, ended = nil, time.Now()
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, i := range there {
			if e := l.all[i]; after[i] == 0 && answersAgain(&b, e, hit[e.node], ended) {
				after[i] = e.answered.Sub(b.At)
				if b.Slowest {
					after[i] = e.slowest
				}
			}
		}
		return endErr != nil || len(after) == len(there) && b.End == nil
	})
	for _, d := range after {
		r.After = append(r.After, d)
	}
	slices.Sort(r.After)
	return r, errors.Join(err, endErr)
}

// answersAgain reports whether an entity has answered after the blow, which ended at the given
// time unless it lasts.
func answersAgain(b *Blow, e ledger, hit bool, ended time.Time) bool {
	if hit && !b.Stays {
		return false
	}
	if hit || b.Nodes == nil {
		from := e.answered
		if b.Slowest {
			from = e.made
		}
		return b.End == nil && from.After(ended)
	}
	return true
}

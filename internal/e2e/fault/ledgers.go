package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

type ledgerAPI interface {
	Add(ctx context.Context, n int64) (total int64, node string, err error)
}

// ledgers calls durable entities all the time, with one goroutine for each entity. Every second
// entity is a till, whose calls also have effects elsewhere.
type ledgers struct {
	tick time.Duration // between two calls of an entity
	refs []ledgerAPI
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu                           sync.Mutex
	all                          []ledger
	calls, failed, lost, doubled int
	closed                       int
	errors                       []string
}

type ledger struct {
	node     string        // where it lived at the last answer
	answered time.Time     // when it answered
	made     time.Time     // when that call was made
	slowest  time.Duration // of the slowest call since the last strike
	sum      int64         // the acknowledged sum
	unsure   int64         // added by calls of unknown outcome
	closed   bool          // its shard, or that of its effects, says that the store has lost acknowledged changes
}

const ledgerPatience = 20 * time.Second

// isTill reports whether entity i is a till, not a ledger.
func isTill(i int) bool { return i%2 == 1 }

func ledgerName(i int) string { return fmt.Sprint("ledger-", i) }

// newLedgers begins to call the entities, rate calls a second in all.
func newLedgers(caller shard.Caller, entities, rate int) *ledgers {
	ctx, stop := context.WithCancel(context.Background())
	l := &ledgers{tick: time.Second * time.Duration(entities) / time.Duration(rate), stop: stop, all: make([]ledger, entities)}
	client, tills := workload.NewLedgerClient(caller), workload.NewTillClient(caller)
	for i := range entities {
		var r ledgerAPI = client.Ref(ledgerName(i), shard.Timeout(ledgerPatience))
		if isTill(i) {
			r = tills.Ref(ledgerName(i), shard.Timeout(ledgerPatience))
		}
		l.refs = append(l.refs, r)
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

// end stops making calls, and waits for calls under way. It may be called twice.
func (l *ledgers) end() {
	l.stop()
	l.wg.Wait()
}

// note records the outcome of a call of entity i. It compares total, the entity's answer, with the
// sum that its caller expects.
func (l *ledgers) note(i int, made time.Time, total int64, node string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.all[i]
	l.calls++
	e.slowest = max(e.slowest, time.Since(made))
	if saysLost(err) {
		l.close(e)
		return
	}
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

func saysLost(err error) bool {
	return err != nil && strings.Contains(err.Error(), "the store has lost") || err != nil && strings.Contains(err.Error(), "the store was put back to an earlier state")
}

// close marks an entity as not judged. The entity's shard, or the shard that gets its effects,
// stays closed because the store has lost changes.
func (l *ledgers) close(e *ledger) {
	if !e.closed {
		e.closed = true
		l.closed++
	}
}

func (l *ledgers) answeredSince(t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(l.all, func(e ledger) bool { return !e.closed && e.answered.Before(t) })
}

// strike injects the fault once, and waits until the entities hit by it answer again.
func (l *ledgers) strike(ctx context.Context, f Fault, d *DurableRun) (r SurvivalStrike, err error) {
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
			if e := l.all[i]; e.closed {
				after[i] = -1
			} else if after[i] == 0 && answersAgain(&b, e, hit[e.node], ended) {
				after[i] = e.answered.Sub(b.At)
				if b.Slowest {
					after[i] = e.slowest
				}
			}
		}
		return endErr != nil || len(after) == len(there) && b.End == nil
	})
	for _, d := range after {
		if d < 0 { // the entity is closed
			continue
		}
		r.After = append(r.After, d)
	}
	slices.Sort(r.After)
	return r, errors.Join(err, endErr)
}

// answersAgain reports whether e has answered since the strike. hit says that e's last answer came
// from a struck node. ended is when the strike ended; until b.End has run it is b.At.
func answersAgain(b *Strike, e ledger, hit bool, ended time.Time) bool {
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

// effectPatience bounds the wait until observers have seen all effects.
const effectPatience = time.Minute

// awaitTells waits until a tell from each till has arrived at a stock. The stocks' shards are then
// open before the faults begin. Otherwise a crashed server could lose the opening of a shard, and
// the shard could stay closed.
func (l *ledgers) awaitTells(ctx context.Context, caller shard.Caller) error {
	stocks := workload.NewStockClient(caller)
	for i := range l.all {
		if !isTill(i) {
			continue
		}
		stock := stocks.Ref(ledgerName(i), shard.Timeout(ledgerPatience))
		err := until(ctx, "a tell of "+ledgerName(i)+" arrives", func() bool {
			last, _, _, err := stock.Report(ctx)
			return err == nil && last > 0
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// settleTills makes one more sale at each till. The till's total in the answer shows which calls of
// unknown outcome ran.
func (l *ledgers) settleTills(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range l.all {
		if !isTill(i) {
			continue
		}
		r := l.refs[i]
		wg.Go(func() {
			made := time.Now()
			total, node, err := r.Add(ctx, 1)
			l.note(i, made, total, node, err)
		})
	}
	wg.Wait()
}

func (l *ledgers) seenBy(ctx context.Context, observer string, of func(ctx context.Context, id string) (tally, error)) (e Effects, err error) {
	e.Observer = observer
	limit := time.Now().Add(effectPatience)
	for i := range l.all {
		if !isTill(i) {
			continue
		}
		l.mu.Lock()
		want := l.all[i]
		l.mu.Unlock()
		if want.closed {
			continue
		}
		var t tally
		closed := false
		err := until(ctx, "the effects of "+ledgerName(i)+" are seen", func() bool {
			t, err = of(ctx, ledgerName(i))
			if closed = saysLost(err); closed {
				return true
			}
			return err == nil && t.last >= want.sum || time.Now().After(limit)
		})
		if err != nil {
			return e, err
		}
		if closed {
			l.mu.Lock()
			l.close(&l.all[i])
			l.mu.Unlock()
			continue
		}
		e.judge(t, want.sum, want.unsure)
	}
	return e, nil
}

// judgeEffects compares the sales that stocks and followers have seen with the acknowledged sales.
// Meanwhile only settleTills may make calls.
func (l *ledgers) judgeEffects(ctx context.Context, caller shard.Caller, live *follower) (all []Effects, err error) {
	l.settleTills(ctx)
	fresh := follow(caller)
	defer fresh.end()
	stocks := workload.NewStockClient(caller)
	for _, o := range []struct {
		name string
		of   func(ctx context.Context, id string) (tally, error)
	}{
		{"follower during the faults", func(_ context.Context, id string) (tally, error) { return live.of(id), nil }},
		{"follower afterwards", func(_ context.Context, id string) (tally, error) { return fresh.of(id), nil }},
		{"tells", func(ctx context.Context, id string) (t tally, err error) {
			t.last, t.again, t.missed, err = stocks.Ref(id, shard.Timeout(ledgerPatience)).Report(ctx)
			return t, err
		}},
	} {
		e, err := l.seenBy(ctx, o.name, o.of)
		if err != nil {
			return all, fmt.Errorf("%s: %w", o.name, errors.Join(err, live.lastError(), fresh.lastError()))
		}
		all = append(all, e)
	}
	return all, nil
}

// Effects counts the sales of all tills as one observer saw them. Each sale must be seen once.
// Sales of one till must be seen in order.
type Effects struct {
	Observer            string
	Seen, Lost, Doubled int
}

type tally struct{ last, again, missed int64 }

func (t *tally) see(total int64) {
	if total <= t.last {
		t.again++
		return
	}
	t.missed += total - t.last - 1
	t.last = total
}

func (e *Effects) judge(t tally, total, unsure int64) {
	e.Seen += int(t.last)
	e.Lost += int(t.missed + max(total-t.last, 0))
	e.Doubled += int(t.again + max(t.last-total-unsure, 0))
}

// resumeAfter is how long a follower reads before it resumes, as after a restart.
const resumeAfter = 3 * time.Second

// A follower reads the events of all tills and tallies them.
type follower struct {
	tills *workload.TillClient
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu      sync.Mutex
	from    shard.Position
	tallies map[string]*tally
	err     error // the last
}

func follow(caller shard.Caller) *follower {
	ctx, stop := context.WithCancel(context.Background())
	f := &follower{tills: workload.NewTillClient(caller), stop: stop, tallies: map[string]*tally{}}
	f.wg.Go(func() {
		for ctx.Err() == nil {
			err := f.read(ctx)
			f.mu.Lock()
			f.err = err
			f.mu.Unlock()
			if err != nil {
				_ = sleep(ctx, 100*time.Millisecond) // ctx is checked next
			}
		}
	})
	return f
}

func (f *follower) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, resumeAfter)
	defer cancel()
	for e, err := range f.tills.Events(ctx, f.from) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		f.see(e)
	}
	return nil
}

func (f *follower) see(e shard.Event[workload.Sale]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tallies[e.Entity] == nil {
		f.tallies[e.Entity] = &tally{}
	}
	f.tallies[e.Entity].see(e.Event.Total)
	f.from = e.Position
}

func (f *follower) of(till string) tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.tallies[till]; t != nil {
		return *t
	}
	return tally{}
}

// end stops the follower. It may be called twice.
func (f *follower) end() {
	f.stop()
	f.wg.Wait()
}

func (f *follower) lastError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

package fault

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

var singletonLeave = Fault{
	Name:    "singleton-leave",
	About:   "the node of a singleton leaves in order, on SIGTERM",
	Subject: OnSingleton,
	Times:   5,
	Limits:  Limits{Failed: 0, Pause: 250 * time.Millisecond},
	Strike: func(n *cluster.Node) (time.Time, error) {
		return time.Now(), n.Signal(syscall.SIGTERM)
	},
}

// singletonKill kills the node of a singleton. Calls under way fail, and later calls reach the next
// instance.
var singletonKill = Fault{
	Name:    "singleton-kill",
	About:   "the process of a singleton's node is killed, with SIGKILL",
	Subject: OnSingleton,
	Times:   20,
	Limits:  Limits{Failed: unjudged, Lost: unjudged, Pause: 3 * time.Second},
	Strike: func(n *cluster.Node) (time.Time, error) {
		at := time.Now()
		return at, n.Kill()
	},
}

// durableSingletonKill kills the node of a singleton whose state is in the store. Callers repeat
// calls, so no call fails and each is applied once.
var durableSingletonKill = Fault{
	Name:    "durable-singleton-kill",
	About:   "the process of a durable singleton's node is killed, with SIGKILL",
	Subject: OnSingleton,
	Durable: true,
	Times:   20,
	Limits:  Limits{Failed: 0, Lost: 0, Pause: 3 * time.Second},
	Strike:  singletonKill.Strike,
}

// A Handing has the results of repeated strikes on the node of a singleton: the singleton's pauses,
// and the lives of its instances.
type Handing struct {
	Fault   string
	Nodes   int
	Limits  Limits
	Calls   int // that succeeded
	Strikes []HandedStrike
	Lives   []Life // of the instances, by their beginning
	Lanes   *Lanes
}

type HandedStrike struct {
	From, To string        // the nodes of the singleton
	Pause    time.Duration // the longest without an answer, of any caller
	Failed   int
	Forgot   int      // callers that the next instance did not know
	Errors   []string // the first
}

// A Life is the time for which an instance of the singleton lived.
type Life struct {
	Node     string
	From, To time.Time
}

// Missed describes each figure over its limit, and instances that lived at the same time.
func (h Handing) Missed() (misses []string) {
	for i, r := range h.Strikes {
		if h.Limits.Failed != unjudged && r.Failed > h.Limits.Failed {
			misses = append(misses, fmt.Sprintf("strike %d: %d calls failed, want at most %d", i+1, r.Failed, h.Limits.Failed))
		}
		if h.Limits.Lost != unjudged && r.Forgot > h.Limits.Lost {
			misses = append(misses, fmt.Sprintf("strike %d: the state of %d callers was lost, want at most %d", i+1, r.Forgot, h.Limits.Lost))
		}
		if r.Pause > h.Limits.Pause {
			misses = append(misses, fmt.Sprintf("strike %d: no answer for %v, want at most %v", i+1, round(r.Pause), h.Limits.Pause))
		}
	}
	if len(h.Lives) < len(h.Strikes) {
		misses = append(misses, fmt.Sprintf("%d instances left a trace, want at least %d", len(h.Lives), len(h.Strikes)))
	}
	return append(append(misses, h.Lanes.missed()...), h.twoAtOnce()...)
}

func (h Handing) twoAtOnce() (misses []string) {
	for i := 1; i < len(h.Lives); i++ {
		if a, b := h.Lives[i-1], h.Lives[i]; b.From.Before(a.To) {
			misses = append(misses, fmt.Sprintf("two at once: %s until %v after %s began", a.Node, a.To.Sub(b.From), b.Node))
		}
	}
	return misses
}

func (h Handing) Print(w io.Writer) error {
	var pauses []time.Duration
	failed := 0
	for i, r := range h.Strikes {
		fmt.Fprintf(w, "%s %2d: %s → %s, longest pause %v, %d calls failed, the state of %d callers went\n", h.Fault, i+1, r.From, r.To, r.Pause.Round(time.Millisecond), r.Failed, r.Forgot)
		if i == 0 || h.Limits.Failed != unjudged { // if failures are expected, one example suffices
			for _, e := range r.Errors {
				fmt.Fprintln(w, "   ", e)
			}
		}
		pauses = append(pauses, r.Pause)
		failed += r.Failed
	}
	slices.Sort(pauses)
	_, err := fmt.Fprintf(w, "%s on %d nodes, %d times: %d calls, %d failed; longest pause p50 %v, max %v; %d instances, never two at once: %t\n",
		h.Fault, h.Nodes, len(h.Strikes), h.Calls, failed, pauses[len(pauses)/2].Round(time.Millisecond),
		pauses[len(pauses)-1].Round(time.Millisecond), len(h.Lives), len(h.twoAtOnce()) == 0)
	h.Lanes.print(w)
	return err
}

func handed(ctx context.Context, c *cluster.Cluster, f Fault, o Options) (Outcome, error) {
	h, all := Handing{Fault: f.Name, Nodes: o.Nodes, Limits: f.Limits}, &crew{Cluster: c} // oldest first
	if err := all.grow(ctx, o.Nodes); err != nil {
		return h, err
	}
	callers, stop, err := startBeats(ctx, c, f.Durable)
	if err != nil {
		return h, err
	}
	defer stop()
	o.Say("%d nodes at %s; %d times: %s", o.Nodes, c.URL(), o.Times, f.About)
	for i := range o.Times {
		r, err := strikeSingleton(ctx, f, all.Nodes[i], all.Nodes[i+1], callers)
		if err != nil {
			return h, fmt.Errorf("%s %s: %w", f.Name, all.Nodes[i].Name(), err)
		}
		h.Strikes = append(h.Strikes, r)
		if err := all.grow(ctx, 1); err != nil {
			return h, err
		}
	}
	stop()
	if h.Lanes, err = countLanes(ctx, c, o); err != nil {
		return h, err
	}
	for _, b := range callers {
		h.Calls += b.well
	}
	for _, n := range all.Nodes {
		from, to, err := n.Lived()
		if err != nil {
			return h, err
		}
		if !from.IsZero() {
			h.Lives = append(h.Lives, Life{n.Name(), from, to})
		}
	}
	slices.SortFunc(h.Lives, func(a, b Life) int { return a.From.Compare(b.From) })
	return h, nil
}

// strikeSingleton strikes once, and waits until every caller has an answer from next, the second
// oldest node.
func strikeSingleton(ctx context.Context, f Fault, victim, next *cluster.Node, callers []*beats) (r HandedStrike, err error) {
	limit, cancel := context.WithTimeoutCause(ctx, effectTimeout, errNoEffect)
	defer cancel()
	if err := until(limit, "all are answered by "+victim.Name(), answeredBy(callers, victim)); err != nil {
		return r, err
	}
	for _, b := range callers {
		b.begin()
	}
	if _, err := f.Strike(victim); err != nil {
		return r, err
	}
	if err := until(limit, "all are answered by "+next.Name(), answeredBy(callers, next)); err != nil {
		for _, b := range callers {
			err = fmt.Errorf("%w\n    %s", err, b)
		}
		return r, err
	}
	select {
	case <-victim.Done():
	case <-limit.Done():
		return r, fmt.Errorf("wait for %s to end: %w", victim.Name(), context.Cause(limit))
	}
	r = HandedStrike{From: victim.Name(), To: next.Name()}
	for _, b := range callers {
		b.add(&r)
	}
	r.Errors = r.Errors[:min(len(r.Errors), 2)]
	return r, nil
}

// beats makes successive calls of the singleton for one caller.
type beats struct {
	sender string
	call   func(ctx context.Context, sender string, seq uint64) (node string, fresh bool, err error)

	mu     sync.Mutex
	node   string // the node that answered last
	well   int
	since  time.Time // the last answer, or the beginning of the strike
	pause  time.Duration
	failed int
	forgot int
	errs   []string
}

const beatEvery = time.Millisecond

const callersOfSingleton = 4

// startBeats starts callers on two connections from outside. stop waits for them, and may be called
// twice.
func startBeats(ctx context.Context, c *cluster.Cluster, durable bool) (all []*beats, stop func(), err error) {
	run, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var conns []*shard.Conn
	stop = sync.OnceFunc(func() {
		end()
		wg.Wait()
		for _, conn := range conns {
			_ = conn.Close() // an error of Close harms nothing: the caller belongs to this run
		}
	})
	for i := range connections {
		conn, err := c.Dial(ctx, fmt.Sprint("beats-", i))
		if err != nil {
			stop()
			return nil, nil, err
		}
		conns = append(conns, conn)
	}
	for i := range callersOfSingleton {
		b := &beats{
			sender: fmt.Sprint("caller-", i), since: time.Now(),
			call: workload.NewLeaderClient(conns[i%connections]).Ref().Beat,
		}
		if durable {
			b.call = workload.NewTreasurerClient(conns[i%connections]).Ref().Beat
		}
		all = append(all, b)
		wg.Go(func() { b.run(run) })
	}
	return all, stop, nil
}

func (b *beats) run(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for seq := uint64(1); ctx.Err() == nil; seq++ {
		node, fresh, err := b.call(context.WithoutCancel(ctx), b.sender, seq)
		b.took(node, fresh, err)
		if shard.OutcomeOf(err) == shard.NotExecuted {
			seq-- // the call is made again, so the singleton sees no gap
		}
		<-ticker.C
	}
}

func (b *beats) took(node string, fresh bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.failed++
		if len(b.errs) < 2 {
			b.errs = append(b.errs, b.sender+": "+err.Error())
		}
		return
	}
	if fresh {
		b.forgot++
	}
	now := time.Now()
	b.pause = max(b.pause, now.Sub(b.since))
	b.well, b.node, b.since = b.well+1, node, now
}

func (b *beats) home() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.node
}

// answeredBy returns a function that reports whether each caller's last answer came from one of the
// nodes.
func answeredBy(callers []*beats, nodes ...*cluster.Node) func() bool {
	return func() bool {
		return !slices.ContainsFunc(callers, func(b *beats) bool {
			home := b.home()
			return !slices.ContainsFunc(nodes, func(n *cluster.Node) bool { return n.Name() == home })
		})
	}
}

// String describes the caller's latest answer and first errors.
func (b *beats) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("%s: answered by %s %v ago, %d calls failed: %s",
		b.sender, b.node, time.Since(b.since).Round(time.Millisecond), b.failed, strings.Join(b.errs, "; "))
}

func (b *beats) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pause, b.failed, b.forgot, b.errs = 0, 0, 0, nil
}

func (b *beats) add(r *HandedStrike) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Pause = max(r.Pause, b.pause)
	r.Failed += b.failed
	r.Forgot += b.forgot
	r.Errors = append(r.Errors, b.errs...)
}

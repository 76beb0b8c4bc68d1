package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/node"
	"github.com/shardgen/shardgen/internal/e2e/process"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// fullRestart ends all nodes and starts them again, while a client stays connected. In turn it kills
// the nodes, lets them leave in order, or kills half and lets half leave.
var fullRestart = Fault{
	Name:    "full-restart",
	About:   "all nodes are ended together and started again; a client from outside stays",
	Subject: OnEveryNode,
	Times:   20,
	Limits:  Limits{Recovery: time.Second},
}

// Restarts has the figures of several full restarts, as seen by a client that stayed connected.
type Restarts struct {
	Fault    string
	Nodes    int
	Limit    time.Duration
	Restarts []Restart
	Errors   []string // of the calls that failed, each text once
	Lanes    *Lanes
}

// A Restart is one full restart. Its times count from the moment when the first node serves: the
// node has reported that it is up, or has answered a client started meanwhile.
type Restart struct {
	How           string
	Down          time.Duration // from the end of the last node to the first that serves
	First, Last   time.Duration // until the first of the entities and the singleton, and until all of them, have answered the staying client
	Failed        int64         // the client's failed calls: under way when the nodes ended, or made before a node served
	Unknown       int64         // failed calls of unknown outcome
	FreshAnswered time.Duration // until the client that was started meanwhile got an answer
}

func (r Restarts) Missed() (misses []string) {
	for i, restart := range r.Restarts {
		if restart.Last > r.Limit {
			misses = append(misses, fmt.Sprintf("restart %d: everything answers again after %v, want at most %v", i+1, restart.Last.Round(time.Millisecond), r.Limit))
		}
	}
	return append(misses, r.Lanes.missed()...)
}

func (r Restarts) Print(w io.Writer) error {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	var first, last []time.Duration
	for i, restart := range r.Restarts {
		fmt.Fprintf(w, "%s %2d: %-8s down for %v; then the client that stayed is answered after %v, by all after %v (a new one after %v); failed meanwhile: %d, unknown %d\n",
			r.Fault, i+1, restart.How, ms(restart.Down), ms(restart.First), ms(restart.Last), ms(restart.FreshAnswered), restart.Failed, restart.Unknown)
		first, last = append(first, restart.First), append(last, restart.Last)
	}
	slices.Sort(first)
	slices.Sort(last)
	n := len(last)
	_, err := fmt.Fprintf(w, "%s of %d nodes, %d times: first answer after p50 %v, max %v; %d entities and a singleton all answer after p50 %v, max %v\n",
		r.Fault, r.Nodes, n, ms(first[n/2]), ms(first[n-1]), staying, ms(last[n/2]), ms(last[n-1]))
	for _, line := range r.Errors {
		fmt.Fprintln(w, line)
	}
	r.Lanes.print(w)
	return err
}

func restarted(ctx context.Context, c *cluster.Cluster, f Fault, o Options) (Outcome, error) {
	r := Restarts{Fault: f.Name, Nodes: o.Nodes, Limit: f.Limits.Recovery}
	var names []string
	for i := range o.Nodes {
		names = append(names, fmt.Sprint("n", i+1))
	}
	nodes, err := c.Start(ctx, names...)
	if err != nil {
		return r, err
	}
	conn, err := c.Dial(ctx, "client")
	if err != nil {
		return r, err
	}
	defer func() { _ = conn.Close() }() // nothing waits for it
	s := newStayer(conn)
	if _, err := s.answers(ctx); err != nil {
		return r, err
	}
	o.Say("%d nodes at %s; %d times: %s", o.Nodes, c.URL(), o.Times, f.About)
	for i := range o.Times {
		var restart Restart
		if restart, nodes, err = restartAll(ctx, c, s, nodes, i); err != nil {
			return r, fmt.Errorf("%s, restart %d: %w", f.Name, i+1, err)
		}
		r.Restarts = append(r.Restarts, restart)
	}
	r.Errors = s.texts
	r.Lanes, err = countLanes(ctx, c, o)
	return r, err
}

func restartAll(ctx context.Context, c *cluster.Cluster, s *stayer, nodes []*cluster.Node, strike int) (r Restart, started []*cluster.Node, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*effectTimeout, errNoEffect)
	defer cancel()
	failed, unknown := s.failed.Load(), s.unknown.Load()
	stopLoad := s.load(ctx)
	defer stopLoad()
	if r.How, err = endAll(ctx, nodes, strike); err != nil {
		return r, nil, err
	}
	down := time.Now()
	type answers struct {
		at  []time.Time
		err error
	}
	stayed := make(chan answers, 1)
	go func() { // ends with ctx
		at, err := s.answers(ctx)
		stayed <- answers{at, err}
	}()
	fresh := make(chan answers, 1)
	go func() { // ends with ctx
		at, err := askAnew(ctx, c, fmt.Sprint("fresh-", strike))
		fresh <- answers{[]time.Time{at}, err}
	}()
	for _, n := range nodes {
		again, err := c.Launch(n.Name())
		if err != nil {
			return r, nil, err
		}
		started = append(started, again)
	}
	up, err := firstUp(ctx, started)
	if err != nil {
		return r, nil, err
	}
	got, anew := <-stayed, <-fresh
	if err := errors.Join(got.err, anew.err); err != nil {
		return r, nil, err
	}
	if anew.at[0].Before(up) {
		up = anew.at[0]
	}
	for _, n := range started {
		if err := n.Await(ctx, node.Up); err != nil {
			return r, nil, err
		}
	}
	r.Down, r.FreshAnswered = up.Sub(down), anew.at[0].Sub(up)
	r.First, r.Last = got.at[0].Sub(up), got.at[len(got.at)-1].Sub(up)
	r.Failed, r.Unknown = s.failed.Load()-failed, s.unknown.Load()-unknown
	return r, started, nil
}

// endAll ends all nodes concurrently. The number of the strike chooses SIGKILL, leaving in order, or
// each for half of the nodes.
func endAll(ctx context.Context, nodes []*cluster.Node, strike int) (how string, err error) {
	how = []string{"killed", "in order", "mixed"}[strike%3]
	errs := make([]error, len(nodes))
	var ends sync.WaitGroup
	for i, n := range nodes {
		ends.Go(func() {
			if how == "killed" || how == "mixed" && i%2 == 0 {
				errs[i] = n.Kill()
				return
			}
			if errs[i] = n.Signal(syscall.SIGTERM); errs[i] != nil {
				return
			}
			// If other nodes were killed at the same moment, a leaving node may lack a majority and
			// end in another way.
			if err := n.AwaitEnd(ctx); err != nil && how != "mixed" {
				errs[i] = err
			}
		})
	}
	ends.Wait()
	return how, errors.Join(errs...)
}

// firstUp waits for the first node to report that it is up.
func firstUp(ctx context.Context, nodes []*cluster.Node) (time.Time, error) {
	type said struct {
		at  time.Time
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := make(chan said, len(nodes))
	for _, n := range nodes {
		go func() { // ends with ctx
			_, err := n.AwaitThat(ctx, "to be up", func(e process.Event) bool { return e.Event == node.Up })
			all <- said{time.Now(), err}
		}()
	}
	first := <-all
	return first.at, first.err
}

func askAnew(ctx context.Context, c *cluster.Cluster, name string) (time.Time, error) {
	conn, err := c.Dial(ctx, name)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = conn.Close() }() // nothing waits for it
	_, err = workload.NewPulseClient(conn).Ref(pulseID + "fresh").Beat(ctx)
	return time.Now(), err
}

var durableRestart = Fault{
	Name:    "durable-restart",
	About:   "the processes of all nodes with durable entities are killed together, with SIGKILL, and others are started",
	Subject: OnDurable,
	Nodes:   5,
	Times:   3,
	Rate:    1000,
	Limits:  Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 5 * time.Second},
	Hit: func(ctx context.Context, d *DurableRun) (Strike, error) {
		all := slices.Clone(d.Nodes)
		b := Strike{Victim: fmt.Sprintf("all %d nodes", len(all)), At: time.Now(), Nodes: all}
		if err := killAll(all); err != nil {
			return b, err
		}
		return b, d.replaceAll()
	},
}

var power = Fault{
	Name:     "power",
	About:    "all nodes with durable entities and all three NATS servers are killed together, with SIGKILL; after 2s the servers and other nodes are started",
	Subject:  OnDurable,
	Nodes:    5,
	Servers:  3,
	Replicas: 3,
	Times:    3,
	Rate:     1000,
	Length:   2 * time.Second,
	// The streams elect leaders, which takes NATS 4 to 9 s. With a table the new nodes then wait for
	// members that might only be slow to come back.
	Limits: Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 30 * time.Second},
	Hit: func(_ context.Context, d *DurableRun) (Strike, error) {
		all, servers := slices.Clone(d.Nodes), d.Cluster.Servers()
		b := Strike{
			Victim: fmt.Sprintf("all %d nodes and %d servers", len(all), len(servers)), At: time.Now(), Length: d.Length, Nodes: all,
			End: func(context.Context) error {
				for _, s := range servers {
					if err := s.Start(); err != nil {
						return err
					}
				}
				return d.replaceAll()
			},
		}
		for _, s := range servers {
			if err := s.Kill(); err != nil {
				return b, err
			}
		}
		return b, killAll(all)
	},
}

// killAll kills nodes together, and waits for their ends.
func killAll(nodes []*cluster.Node) error {
	for _, n := range nodes {
		if err := n.Signal(syscall.SIGKILL); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		if err := n.Kill(); err != nil {
			return err
		}
	}
	return nil
}

// replaceAll starts a new node for each ended one.
func (d *DurableRun) replaceAll() error {
	for i := range d.Nodes {
		d.started++
		again, err := d.Cluster.Launch(fmt.Sprint("n", d.started))
		if err != nil {
			return err
		}
		d.Nodes[i] = again
	}
	return nil
}

// staying is the number of entities that the staying client calls, besides a singleton.
const staying = 16

// A stayer is a client that stays connected and keeps its references during restarts.
type stayer struct {
	calls           []func(context.Context) error
	failed, unknown atomic.Int64

	mu    sync.Mutex
	texts []string
}

func newStayer(c shard.Caller) *stayer {
	s := &stayer{}
	pulses := workload.NewPulseClient(c)
	for i := range staying {
		ref := pulses.Ref(fmt.Sprint(pulseID, i))
		s.calls = append(s.calls, func(ctx context.Context) error {
			_, err := ref.Beat(ctx)
			return err
		})
	}
	leader := workload.NewLeaderClient(c).Ref()
	var senders atomic.Int64
	s.calls = append(s.calls, func(ctx context.Context) error {
		_, _, err := leader.Beat(ctx, fmt.Sprint("stayer-", senders.Add(1)), 1)
		return err
	})
	return s
}

func (s *stayer) call(ctx context.Context, call func(context.Context) error) error {
	err := call(ctx)
	if err != nil && ctx.Err() == nil {
		s.failed.Add(1)
		if shard.OutcomeOf(err) == shard.Unknown {
			s.unknown.Add(1)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if text := strings.SplitN(err.Error(), ": ", 2)[1]; len(s.texts) < 10 && !slices.Contains(s.texts, text) {
			s.texts = append(s.texts, text)
		}
	}
	return err
}

func (s *stayer) load(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var callers sync.WaitGroup
	for _, call := range s.calls {
		callers.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for ctx.Err() == nil {
				_ = s.call(ctx, call) // call counts failures
				select {
				case <-pace.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return func() {
		cancel()
		callers.Wait()
	}
}

// answers repeats each call until it is answered. It returns the times of the answers, ascending.
func (s *stayer) answers(ctx context.Context) ([]time.Time, error) {
	at, errs := make([]time.Time, len(s.calls)), make([]error, len(s.calls))
	var callers sync.WaitGroup
	for i, call := range s.calls {
		callers.Go(func() {
			pace := time.NewTicker(time.Millisecond)
			defer pace.Stop()
			for errs[i] = s.call(ctx, call); errs[i] != nil && ctx.Err() == nil; errs[i] = s.call(ctx, call) {
				<-pace.C
			}
			at[i] = time.Now()
		})
	}
	callers.Wait()
	slices.SortFunc(at, time.Time.Compare)
	return at, errors.Join(errs...)
}

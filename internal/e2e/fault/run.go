package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/load"
	shard "github.com/shardgen/shardgen/runtime"
)

// connections is the number of callers outside the cluster. With several, each entity must keep
// several senders' orders.
const connections = 2

var errNoEffect = errors.New("the fault has not taken full effect in time")

// A Run is a fault under way. Fault.Inject gets it.
type Run struct {
	Cluster *cluster.Cluster
	Load    *load.Load
	Nodes   []*cluster.Node // up before the fault, the oldest first
	Victim  *cluster.Node   // nil if the fault has none
	Length  time.Duration   // how long the fault lasts

	*report
	*strikes
	cuts
	clusterView

	options Options
	limits  Limits
	began   time.Time     // when the fault began
	frames  cluster.Count // frames sent when the fault had taken effect
}

func newRun(c *cluster.Cluster, f Fault, o Options) *Run {
	notes := &report{}
	return &Run{
		Cluster: c, Length: o.Length, options: o, limits: f.Limits, report: notes,
		strikes: &strikes{report: notes, cluster: c, struck: make(map[string]bool), died: make(map[string]bool)},
		cuts:    cuts{notes, c},
	}
}

// An Outcome has the figures of one part of a run.
type Outcome interface {
	// Missed names the figures over the fault's limits; none when the run passed.
	Missed() []string
	// Print writes the figures. The function Print writes the misses after them.
	Print(w io.Writer) error
}

// Print writes an outcome and its misses.
func Print(w io.Writer, o Outcome) error {
	if err := o.Print(w); err != nil {
		return err
	}
	for _, m := range o.Missed() {
		fmt.Fprintln(w, "miss:", m)
	}
	return nil
}

// Do runs a fault in the way that its Subject determines. ctx bounds the run. An error means that
// the run could not be done or was cut short; a figure over its limit is not an error.
func Do(ctx context.Context, f Fault, o Options) (all []Outcome, err error) {
	o = o.withDefaults(f)
	if err := o.Validate(f); err != nil {
		return nil, err
	}
	if f.Needs != nil {
		if err := f.Needs(); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if f.Program != nil {
		o.Say("building the program of the nodes")
		path, err := f.Program(ctx, o.Cluster.Dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		o.Cluster.Program = path
	}
	parts := map[Subject]part{UnderLoad: underLoad, OnSingleton: handed, OnRemembered: activated, OnEveryNode: restarted, OnDurable: survived, OnReminders: reminded, OnStreams: streamed}
	first, err := onCluster(ctx, f, o, parts[f.Subject])
	if err != nil {
		return nil, err
	}
	if f.Subject != UnderLoad || f.Times == 0 {
		return []Outcome{first}, nil
	}
	o.Cluster.Dir = filepath.Join(o.Cluster.Dir, "quiet") // beside the files of the first
	if err := os.Mkdir(o.Cluster.Dir, 0o755); err != nil {
		return nil, err
	}
	second, err := onCluster(ctx, f, o, noticed)
	return []Outcome{first, second}, err
}

type part func(ctx context.Context, c *cluster.Cluster, f Fault, o Options) (Outcome, error)

func onCluster(ctx context.Context, f Fault, o Options, do part) (out Outcome, err error) {
	c, err := cluster.New(o.Cluster)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return do(ctx, c, f, o)
}

// A crew has the nodes of a run, named n1, n2 and so on.
type crew struct {
	Cluster *cluster.Cluster
	Nodes   []*cluster.Node
	started int
}

func (c *crew) grow(ctx context.Context, n int) error {
	for range n {
		c.started++
		started, err := c.Cluster.Start(ctx, fmt.Sprint("n", c.started))
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, started...)
	}
	return nil
}

func underLoad(ctx context.Context, c *cluster.Cluster, f Fault, o Options) (Outcome, error) {
	r := newRun(c, f, o)
	if err := r.start(ctx, f); err != nil {
		return nil, err
	}
	var callers []shard.Caller
	for i := range connections {
		conn, err := c.Dial(ctx, callerName(i))
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }() // processes of this run: nothing depends on it
		callers = append(callers, conn)
	}
	r.Load = load.Start(o.Load, callers...)
	r.strikes.load = r.Load
	r.clusterView = clusterView{report: r.report, cluster: c, load: r.Load, nodes: r.Nodes, entities: o.Load.Entities}
	err := r.underLoad(ctx, f)
	r.Load.Stop()
	if err != nil {
		return nil, err
	}
	return r.judge(ctx, f, callers[0])
}

// start starts the nodes and picks the victim. Without f.MinMembers, n1 starts first and so is the
// oldest.
func (r *Run) start(ctx context.Context, f Fault) error {
	r.options.Say("starting %d nodes at %s", r.options.Nodes, r.Cluster.URL())
	names := make([]string, r.options.Nodes)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i+1)
	}
	batches := [][]string{names[:1], names[1:]}
	if f.MinMembers {
		batches = [][]string{names} // no node is up alone
	}
	for _, batch := range batches {
		started, err := r.Cluster.Start(ctx, batch...)
		if err != nil {
			return err
		}
		r.Nodes = append(r.Nodes, started...)
	}
	victim := r.options.Victim
	if victim == 0 {
		victim = f.Victim
	}
	switch {
	case victim > 0:
		r.Victim = r.Nodes[victim-1]
	case victim < 0:
		r.Victim = r.Nodes[len(r.Nodes)+victim]
	}
	return nil
}

// underLoad injects the fault after every entity has answered. Calls go on until Options.Calls are
// made and Options.Tail is over.
func (r *Run) underLoad(ctx context.Context, f Fault) error {
	if err := r.Until(ctx, "every entity has answered, and each node has its share", r.settled); err != nil {
		return fmt.Errorf("%w (%s)", err, load.Describe(r.Load.LastSeen()))
	}
	r.options.Say("settled, %s; now: %s", load.Describe(r.Load.LastSeen()), f.About)
	r.Begin()
	most := r.options.injectBound(f)
	limit, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("%w after %v", errNoEffect, most))
	defer cancel()
	switch err := f.Inject(limit, r); {
	case errors.Is(err, errNoEffect):
		r.misses = append(r.misses, fmt.Sprintf("%v", err))
	case err != nil:
		return fmt.Errorf("%s: %w (%s)", f.Name, err, load.Describe(r.Load.LastSeen()))
	}
	r.Note("the fault took %v to take effect; %s", round(time.Since(r.began)), load.Describe(r.Load.LastSeen()))
	if r.options.Cluster.Direct {
		var err error
		if r.frames, err = r.Cluster.Frames(ctx); err != nil {
			return err
		}
	}
	tail := time.Now().Add(r.options.Tail)
	return r.Until(ctx, "all calls are made", func() bool {
		return time.Now().After(tail) && r.Load.Made() >= r.options.Calls
	})
}

// Begin makes all figures count from now instead of from Inject's start. Inject calls Begin after
// preparations.
func (r *Run) Begin() { r.began = time.Now() }

// Until calls holds() every 10 ms until it returns true. what describes the awaited condition in
// errors.
func (r *Run) Until(ctx context.Context, what string, holds func() bool) error {
	return until(ctx, what, holds)
}

func until(ctx context.Context, what string, holds func() bool) error {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

func (r *Run) Sleep(ctx context.Context, d time.Duration) error { return sleep(ctx, d) }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Run) judge(ctx context.Context, f Fault, c shard.Caller) (Outcome, error) {
	r.mourn()
	ran, err := r.Cluster.Witnessed()
	if err != nil {
		return nil, err
	}
	row := Row{Fault: f.Name, Timing: r.Load.Timing(r.began, load.Everyone), Notes: r.notes}
	row.Verdict = r.Load.Judge(ctx, c, ran, r.died)
	if len(r.died) > 0 {
		r.noteDead(&row)
	}
	row.Errors = r.Load.Errors()
	if r.options.Cluster.Direct {
		count, err := r.Cluster.Frames(ctx)
		if err != nil {
			return nil, err
		}
		all, after := Lanes{count.Nodes(), count.Callers()}, count.Since(r.frames)
		row.Notes = append(row.Notes, all.String(), "after the fault, "+(&Lanes{after.Nodes(), after.Callers()}).String())
		r.misses = append(r.misses, all.missed()...)
	}
	if f.Spares || f.SparesOthers {
		r.misses = append(r.misses, r.removed()...)
	}
	row.Misses = append(r.misses, f.Limits.misses(row)...)
	return row, nil
}

// noteDead adds notes on the pauses of killed entities, and of all other entities.
func (r *Run) noteDead(row *Row) {
	dead := r.Load.Timing(r.began, func(e string) bool { return load.Concerns(r.died, e) })
	others := r.Load.Timing(r.began, func(e string) bool { return !load.Concerns(r.died, e) })
	row.Notes = append(row.Notes,
		fmt.Sprintf("killed entities and relays: %d, pauses p50 %v, p99 %v, longest %v, all succeed after %v; %d of their calls died with them",
			len(r.died), round(dead.P50), round(dead.P99), round(dead.Longest), round(dead.Recovery), row.Excused),
		fmt.Sprintf("other entities: %d disturbed, pauses p50 %v, p99 %v, longest %v",
			others.Disturbed, round(others.P50), round(others.P99), round(others.Longest)))
}

func callerName(i int) string { return fmt.Sprintf("client-%d", i) }

// Lanes counts the data frames of a run, and how many of them took direct lanes. Nil means a run
// without direct lanes; all methods work on nil.
type Lanes struct {
	Nodes, Callers cluster.Frames
}

// countLanes returns how many data frames the callers and the running nodes have sent so far, and
// how many of the frames took direct lanes. It leaves out nodes that have ended. It returns nil if
// the run has no direct lanes.
func countLanes(ctx context.Context, c *cluster.Cluster, o Options) (*Lanes, error) {
	if !o.Cluster.Direct {
		return nil, nil
	}
	count, err := c.Frames(ctx)
	if err != nil {
		return nil, err
	}
	return &Lanes{count.Nodes(), count.Callers()}, nil
}

func (l *Lanes) String() string {
	if l == nil {
		return "no direct lanes"
	}
	return fmt.Sprintf("data frames on direct lanes: %s of nodes, %s of callers", ofAll(l.Nodes), ofAll(l.Callers))
}

func ofAll(f cluster.Frames) string {
	return fmt.Sprintf("%d of %d (%d%%)", f.Direct, f.All, f.Direct*100/max(f.All, 1))
}

func (l *Lanes) print(w io.Writer) {
	if l != nil {
		fmt.Fprintln(w, l)
	}
}

// missed returns a miss if no frame took a direct lane, because such a run tests no direct lane.
func (l *Lanes) missed() (misses []string) {
	if l != nil && (l.Nodes.Direct == 0 || l.Callers.Direct == 0) {
		misses = append(misses, fmt.Sprintf("%v, want some of both", l))
	}
	return misses
}

package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/load"
	shard "github.com/shardgen/shardgen/runtime"
)

// connections is how many of them call from outside: two, so that an entity has
// more than one sender to keep in order.
const connections = 2

var errNoEffect = errors.New("out of time")

// A Run is a fault under way, as its Inject sees it.
type Run struct {
	Cluster *cluster.Cluster
	Load    *load.Load
	Nodes   []*cluster.Node // up before the fault, the oldest first
	Victim  *cluster.Node   // nil for faults without
	Length  time.Duration   // how long the fault lasts

	*report
	*strikes
	cuts
	clusterView

	options Options
	limits  Limits
	began   time.Time     // the fault
	frames  cluster.Count // when the fault had taken effect
}

func newRun(c *cluster.Cluster, f Fault, o Options) *Run {
	notes := &report{}
	return &Run{
		Cluster: c, Length: o.Length, options: o, limits: f.Limits, report: notes,
		strikes: &strikes{report: notes, cluster: c, struck: make(map[string]bool), died: make(map[string]bool)},
		cuts:    cuts{notes, c},
	}
}

// Do runs a fault. ctx bounds the run; an error is not a miss: the run could not
// be done or was cut short.
func Do(ctx context.Context, f Fault, o Options) (row Row, err error) {
	o = o.withDefaults(f)
	if err := o.Validate(f); err != nil {
		return Row{}, err
	}
	if f.Needs != nil {
		if err := f.Needs(); err != nil {
			return Row{}, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if f.Program != nil {
		o.Say("building the program of the nodes")
		path, err := f.Program(ctx, o.Cluster.Dir)
		if err != nil {
			return Row{}, fmt.Errorf("%s: %w", f.Name, err)
		}
		o.Cluster.Program = path
	}
	c, err := cluster.New(o.Cluster)
	if err != nil {
		return Row{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r := newRun(c, f, o)
	if err := r.start(ctx, f); err != nil {
		return Row{}, err
	}
	var callers []shard.Caller
	for i := range connections {
		conn, err := c.Dial(ctx, callerName(i))
		if err != nil {
			return Row{}, err
		}
		defer func() { _ = conn.Close() }() // processes of this run: nothing depends on it
		callers = append(callers, conn)
	}
	r.Load = load.Start(o.Load, callers...)
	r.strikes.load = r.Load
	r.clusterView = clusterView{report: r.report, cluster: c, load: r.Load, nodes: r.Nodes, entities: o.Load.Entities}
	err = r.underLoad(ctx, f)
	r.Load.Stop()
	if err != nil {
		return Row{}, err
	}
	return r.judge(ctx, f, callers[0])
}

// start starts the nodes; the first alone, so that it is the oldest.
func (r *Run) start(ctx context.Context, f Fault) error {
	r.options.Say("starting %d nodes at %s", r.options.Nodes, r.Cluster.URL())
	names := make([]string, r.options.Nodes)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i+1)
	}
	batches := [][]string{names[:1], names[1:]}
	if f.MinMembers {
		batches = [][]string{names} // none is up alone
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

// underLoad lets the load find every entity, then the fault happen, then calls
// go on for a while.
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
		r.misses = append(r.misses, fmt.Sprintf("no full effect: %v", err))
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

// Begin says that the fault happens now: times are measured from here. Inject
// calls it if it has something to do before.
func (r *Run) Begin() { r.began = time.Now() }

// Until looks again and again until the condition holds.
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

// Sleep waits for d.
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

func (r *Run) judge(ctx context.Context, f Fault, c shard.Caller) (Row, error) {
	r.mourn()
	ran, err := r.Cluster.Witnessed()
	if err != nil {
		return Row{}, err
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
			return Row{}, err
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

// noteDead tells apart entities whose process was killed and the others.
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

// Lanes has the frames that took direct lanes in a run. Nil is a run without direct lanes, and all
// methods may be called on it.
type Lanes struct {
	Nodes, Callers cluster.Frames
}

// countLanes counts the frames of a run until now. Those of nodes that have ended are left out.
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

// String says how many frames took direct lanes.
func (l *Lanes) String() string {
	if l == nil {
		return "no direct lanes"
	}
	return fmt.Sprintf("data frames on direct lanes: %s of nodes, %s of callers", ofAll(l.Nodes), ofAll(l.Callers))
}

func ofAll(f cluster.Frames) string {
	return fmt.Sprintf("%d of %d (%d%%)", f.Direct, f.All, f.Direct*100/max(f.All, 1))
}

// print writes a line about the frames.
func (l *Lanes) print(w io.Writer) {
	if l != nil {
		fmt.Fprintln(w, l)
	}
}

// missed is a sentence if a run that was to have direct lanes had none, and so shows nothing of
// them.
func (l *Lanes) missed() (misses []string) {
	if l != nil && (l.Nodes.Direct == 0 || l.Callers.Direct == 0) {
		misses = append(misses, fmt.Sprintf("%v, want some of both", l))
	}
	return misses
}

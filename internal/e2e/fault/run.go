package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/load"
	shard "github.com/shardgen/shardgen/runtime"
)

// Options say how a fault is run. The zero value of a number is its default.
type Options struct {
	Cluster cluster.Options
	Nodes   int // before the fault. Default: the fault's
	Load    load.Options
	Calls   int // at least. Default 20,000
	Rounds  int // for faults that have several. Default: the fault's
	Victim  int // 1 is the oldest node, Nodes the youngest. Default: the fault's
	// Length is how long the fault lasts. Default: the fault's.
	Length time.Duration
	// Times is how often quiet nodes are struck. Default: the fault's.
	Times int
	// Tail is how long calls go on after the fault took effect. Default 2s.
	Tail time.Duration
	// Settle is how soon after a fault of the broker the rate of calls must be what
	// it was. Default 5s.
	Settle time.Duration
	// Say receives progress messages. Default: none.
	Say func(format string, args ...any)
}

func (o Options) withDefaults(f Fault) Options {
	set(&o.Nodes, f.Nodes)
	set(&o.Nodes, 3)
	set(&o.Length, f.Length)
	set(&o.Times, f.Times)
	set(&o.Cluster.Servers, f.Servers)
	set(&o.Cluster.Replicas, f.Replicas)
	o.Cluster.Separate, o.Cluster.Near = f.Separate, f.Near
	o.Cluster.Direct, o.Cluster.Proxied = o.Cluster.Direct || f.Direct, f.Direct
	if f.MinMembers {
		o.Cluster.MinMembers = o.Nodes/2 + 1
	}
	set(&o.Load.Entities, 1000)
	set(&o.Load.Rate, f.Rate)
	set(&o.Load.Rate, 2000)
	set(&o.Rounds, f.Rounds)
	set(&o.Calls, 20_000)
	set(&o.Rounds, 5)
	set(&o.Tail, 2*time.Second)
	set(&o.Settle, 5*time.Second)
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	return o
}

func set[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Validate returns the reason why o cannot run a fault, also what would do nothing for
// it; Do, Notice and Handed call it first.
func (o Options) Validate(f Fault) error {
	o = o.withDefaults(f)
	switch {
	case (f.Victim != 0 || f.Subject != UnderLoad) && o.Nodes < 2:
		return fmt.Errorf("%s takes a node away: want at least 2 nodes", f.Name)
	case f.Subject != UnderLoad && o.Times < 1:
		return fmt.Errorf("%s happens to %v: want at least 1 time", f.Name, f.Subject)
	case o.Nodes < 1 || o.Load.Entities < 1 || o.Load.Rate < 1 || o.Calls < 1 || o.Tail < 0:
		return errors.New("nodes, entities, rate and calls must be at least 1")
	case o.Length < 0 || o.Times < 0:
		return errors.New("length and times must not be negative")
	case o.Victim != 0 && f.Victim == 0:
		return fmt.Errorf("%s happens to no one node: leave the victim out", f.Name)
	case o.Times > 0 && f.Times == 0:
		return fmt.Errorf("%s happens once: leave the times out", f.Name)
	case o.Length > 0 && f.Length == 0:
		return fmt.Errorf("%s lasts until it has taken effect: leave the length out", f.Name)
	case (f.Servers > 0 || f.Separate) && o.Cluster.URL != "":
		return fmt.Errorf("%s happens to NATS servers: it starts its own (leave -nats out)", f.Name)
	case o.Victim < 0 || o.Victim > o.Nodes:
		return fmt.Errorf("victim %d: want 1 to %d", o.Victim, o.Nodes)
	}
	return nil
}

// injectBound is how long the fault may take to have its full effect under load.
func (o Options) injectBound(f Fault) time.Duration {
	times := cmp.Or(f.Lengths, 1)
	if f.Rounds > 0 {
		times *= o.Rounds
	}
	return cmp.Or(f.Within, effectTimeout) + time.Duration(times)*o.Length
}

// startBound is how long it may take to build and start the processes, and to find every
// entity.
const startBound = 2 * time.Minute

// Bound is how long a valid run of the fault may take in all: to start, for the fault
// under load, for the remaining calls at half their rate, and for each time that quiet
// nodes are struck.
func (o Options) Bound(f Fault) time.Duration {
	o = o.withDefaults(f)
	calls := 2 * time.Duration(o.Calls) * time.Second / time.Duration(o.Load.Rate)
	strike := 2*effectTimeout + o.Length + f.Notice
	return startBound + o.injectBound(f) + calls + o.Tail + time.Duration(o.Times)*strike
}

// connections is how many of them call from outside: two, so that an entity has
// more than one sender to keep in order.
const connections = 2

// effectTimeout bounds how long a fault that says nothing else takes to have its
// full effect: entities that do not answer by then are judged as silent.
const effectTimeout = 30 * time.Second

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

// A DurableRun is a cluster with durable entities that are called all the time.
type DurableRun struct {
	Cluster *cluster.Cluster
	Nodes   []*cluster.Node // all that are members
	Before  int             // the number of strikes before this one
	Length  time.Duration   // of one time

	started int // nodes, for their names
}

// start starts one more node and waits until it is up.
func (d *DurableRun) start(ctx context.Context) error {
	d.started++
	n, err := d.Cluster.Start(ctx, fmt.Sprint("n", d.started))
	d.Nodes = append(d.Nodes, n...)
	return err
}

// replace starts a node in the place of each that has ended.
func (d *DurableRun) replace(ctx context.Context) error {
	for i, n := range d.Nodes {
		if !n.Ended() {
			continue
		}
		if err := d.start(ctx); err != nil {
			return err
		}
		last := len(d.Nodes) - 1
		d.Nodes[i], d.Nodes = d.Nodes[last], d.Nodes[:last]
	}
	return nil
}

// A Strike is one occurrence of a fault, under way.
type Strike struct {
	Victim string    // the node, nodes or server that were hit
	At     time.Time // answers again are measured from here
	// Nodes are those whose entities are concerned; nil means all entities.
	Nodes []*cluster.Node
	// Length after At, End ends it. Nil: it has ended.
	Length time.Duration
	End    func(ctx context.Context) error
	// Stays: the nodes stay, or may stay, and their own answers count after the end.
	Stays bool
	// Slowest: an entity's slowest call is judged, up to the first that was made after the
	// end, and not the time of its next answer.
	Slowest bool
}

func callerName(i int) string { return fmt.Sprintf("client-%d", i) }

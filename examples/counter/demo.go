package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/shardgen/shardgen/examples/counter/counter"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

// demoTimeout bounds a run, which takes about ten seconds.
const demoTimeout = 2 * time.Minute

type demo struct {
	url, cluster          string
	membership            string
	calls, counters, rate int
	joinAt, killAt        int // numbers of calls after which a worker joins, and one is killed
	leaveAt               int
	progress              *progress
	conn                  *shard.Conn
	load                  *load
	changed               chan struct{} // closed when the members have changed
	giveUp                context.CancelCauseFunc
	mu                    sync.Mutex
	workers               []*process
}

func runDemo(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	d := &demo{progress: newProgress(stderr), changed: make(chan struct{})}
	flags := newFlags("counter", stderr)
	flags.StringVar(&d.url, "nats", "", "`URL` of a NATS server that runs (default: one inside this process)")
	flags.StringVar(&d.cluster, "cluster", fmt.Sprintf("counter-demo-%d", os.Getpid()), "`name` of the cluster")
	flags.IntVar(&d.calls, "calls", 20_000, "`number` of calls")
	flags.IntVar(&d.counters, "counters", 1_000, "`number` of counters")
	flags.IntVar(&d.rate, "rate", 2_500, "calls a second, at most")
	by := membershipFlag(flags)
	if err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	if err := checkMembership(*by); err != nil {
		return err
	}
	d.membership = *by
	if d.calls < 10 || d.counters < 1 || d.rate < 1 {
		return usageError("-calls must be at least 10, -counters and -rate at least 1")
	}
	d.joinAt, d.killAt, d.leaveAt = d.calls/5, d.calls*2/5, d.calls*3/5
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, demoTimeout, fmt.Errorf("the run took longer than %v", demoTimeout))
	defer cancel()
	if d.url == "" {
		dir, err := os.MkdirTemp("", "counter-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		server, err := embedded.Start(embedded.Options{StoreDir: dir})
		if err != nil {
			return err
		}
		defer server.Shutdown()
		d.url = server.ClientURL()
		d.progress.event("NATS server at " + d.url)
	}
	defer d.killAll()
	wrong, err := d.run(ctx)
	d.progress.clear()
	if err != nil {
		return err
	}
	for i, w := range wrong {
		if i == 10 {
			fmt.Fprintf(stderr, "wrong: %d counters more\n", len(wrong)-i)
			break
		}
		fmt.Fprintf(stderr, "wrong: %s\n", w)
	}
	failed := d.load.failed.Load()
	fmt.Fprintf(stdout, "calls=%d failed=%d wrong=%d moved=%d seconds=%.1f\n",
		d.load.done.Load(), failed, len(wrong), d.moved(), time.Since(began).Seconds())
	if failed > 0 || len(wrong) > 0 {
		return fmt.Errorf("%d calls failed, %d counters are wrong", failed, len(wrong))
	}
	return nil
}

// run makes the calls while members change. wrong has a line for each wrong counter.
func (d *demo) run(ctx context.Context) (wrong []string, err error) {
	ctx, d.giveUp = context.WithCancelCause(ctx)
	defer d.giveUp(nil)
	if err := d.startWorkers(ctx, "worker-1", "worker-2", "worker-3"); err != nil {
		return nil, err
	}
	d.conn, err = shard.Dial(ctx, shard.Config{
		Cluster:   d.cluster,
		Transport: natstransport.New(d.url),
		Logger:    slog.New(slog.NewTextHandler(lineWriter(d.progress.event), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.conn.Close() }()
	d.load = &load{
		client: counter.NewCounterClient(d.conn), counters: d.counters, report: d.progress.event,
		pace: &pace{interval: time.Second / time.Duration(d.rate), changed: d.changed, total: d.calls},
	}
	var wg sync.WaitGroup
	showing, shown := context.WithCancel(ctx)
	wg.Go(func() { d.show(showing) })
	wg.Go(func() {
		if err := d.changeMembers(ctx); err != nil {
			d.giveUp(err)
			return
		}
		close(d.changed)
	})
	d.load.run(ctx)
	shown()
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d.progress.event(fmt.Sprintf("%d calls made, checking %d counters", d.calls, d.counters))
	wrong = check(d.load.answers[:], d.load.totals(ctx))
	return wrong, d.stopWorkers(ctx)
}

func (d *demo) startWorkers(ctx context.Context, names ...string) error {
	var started []*process
	for _, name := range names {
		p, err := startProcess(name, d.url, d.cluster, d.membership, d.progress.event, func(err error) { d.giveUp(err) })
		if err != nil {
			return err
		}
		d.mu.Lock()
		d.workers = append(d.workers, p)
		d.mu.Unlock()
		started = append(started, p)
	}
	for _, p := range started {
		if err := p.ready(ctx); err != nil {
			return err
		}
		d.progress.event(fmt.Sprintf("%s is up, process %d", p.name, p.cmd.Process.Pid))
	}
	return nil
}

func (d *demo) changeMembers(ctx context.Context) error {
	if err := d.until(ctx, func() bool { return d.load.pace.taken() >= d.joinAt }); err != nil {
		return err
	}
	d.progress.event("worker-4 joins")
	before := d.moved()
	if err := d.startWorkers(ctx, "worker-4"); err != nil {
		return err
	}
	if err := d.until(ctx, func() bool { return d.moved() > before && d.load.pace.taken() >= d.killAt }); err != nil {
		return err
	}
	d.mu.Lock()
	second := d.workers[1]
	d.mu.Unlock()
	before = d.moved()
	second.kill()
	d.progress.event(second.name + " was killed with SIGKILL; worker-5 takes its place")
	if err := d.startWorkers(ctx, "worker-5"); err != nil {
		return err
	}
	if err := d.until(ctx, func() bool { return d.moved() > before && d.load.pace.taken() >= d.leaveAt }); err != nil {
		return err
	}
	d.mu.Lock()
	first := d.workers[0]
	d.mu.Unlock()
	d.progress.event(first.name + " leaves")
	if err := first.leave(ctx); err != nil {
		return err
	}
	d.progress.event(first.name + " has left")
	return nil
}

func (d *demo) until(ctx context.Context, holds func() bool) error {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (d *demo) moved() uint64 { return d.conn.Counters()["shards moved"] }

func (d *demo) show(ctx context.Context) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var rate throughput
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			done := d.load.done.Load()
			d.progress.status(now, done, int64(d.calls), fmt.Sprintf("%.0f a second, %d failed, %d shards moved",
				rate.look(now, done), d.load.failed.Load(), d.moved()))
		}
	}
}

func (d *demo) stopWorkers(ctx context.Context) error {
	d.mu.Lock()
	workers := d.workers
	d.mu.Unlock()
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, p := range workers {
		select {
		case <-p.done: // left before
		default:
			wg.Go(func() { errs[i] = p.leave(ctx) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (d *demo) killAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.workers {
		p.kill()
	}
}

type lineWriter func(string)

// Write takes one line with its line break.
func (w lineWriter) Write(b []byte) (int, error) {
	w(string(b[:max(0, len(b)-1)]))
	return len(b), nil
}

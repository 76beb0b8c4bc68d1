// Command singleton runs a cluster with one scheduler, and workers for its jobs.
//
//	singleton [-jobs N] [-workers N] [-every D]
//
// Three nodes in one process communicate through a NATS server in the same process. The scheduler
// lives on the oldest node. That node leaves when a third of the jobs is done, and the next oldest
// when all are done: each time the scheduler continues on another node. Then the command asks every
// worker what it did, and prints one line on standard output:
//
//	jobs=303 twice=0 missing=0 homes=n1,n2,n3 pause=17ms seconds=3.5
//
// pause is the longest time that an answer of the scheduler took. The exit code is 0 if every job
// was done once, and 1 otherwise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/examples/singleton/work"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	jobs := flag.Int64("jobs", 300, "`number` of jobs, at least")
	workers := flag.Int64("workers", 20, "`number` of workers")
	every := flag.Duration("every", 10*time.Millisecond, "time between two jobs")
	flag.Parse()
	if *jobs < 3 || *workers < 1 || *every <= 0 {
		fmt.Fprintln(os.Stderr, "singleton: want at least 3 jobs, 1 worker, and some time between jobs")
		os.Exit(2)
	}
	if err := run(ctx, *jobs, *workers, *every, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "singleton:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, jobs, workers int64, every time.Duration, out io.Writer) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Minute+3*time.Duration(jobs)*every)
	defer cancel()
	server, err := embedded.Start(embedded.Options{})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	config := func(name string) shard.Config {
		return shard.Config{
			Cluster: "singleton", Name: name, Transport: server.Transport(),
			Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		}
	}
	var nodes []*shard.Node
	for _, name := range []string{"n1", "n2", "n3"} {
		n := shard.New(config(name))
		defer func() { _ = n.Close() }()
		work.Host(n, every, workers)
		if err := n.Start(ctx); err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	w := watcher{scheduler: work.NewSchedulerClient(nodes[2]).Ref()}
	if err := w.until(ctx, jobs/3); err != nil {
		return err
	}
	if err := nodes[0].Shutdown(ctx); err != nil { // the oldest, on which the scheduler lives
		return err
	}
	if err := w.until(ctx, jobs); err != nil {
		return err
	}
	if err := nodes[1].Shutdown(ctx); err != nil { // the scheduler moves once more
		return err
	}
	if err := w.until(ctx, jobs+1); err != nil {
		return err
	}
	twice, missing, err := judge(ctx, work.NewWorkerClient(nodes[2]), workers, jobs)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "jobs=%d twice=%d missing=%d homes=%s pause=%v seconds=%.1f\n", w.jobs, twice, missing,
		strings.Join(w.homes, ","), w.pause.Round(time.Millisecond), time.Since(began).Seconds())
	if twice+missing > 0 {
		return errors.New("some jobs were not done exactly once")
	}
	return nil
}

// A watcher asks the scheduler how many jobs it has handed out.
type watcher struct {
	scheduler work.SchedulerRef
	jobs      int64
	homes     []string      // where it lived, in order
	pause     time.Duration // the longest that an answer took
}

// until asks the scheduler repeatedly until it has handed out at least the given number of jobs.
// until asks at least once, to learn the scheduler's node.
func (w *watcher) until(ctx context.Context, jobs int64) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		asked := time.Now()
		done, node, err := w.scheduler.Status(ctx)
		if err != nil {
			return err
		}
		w.jobs, w.pause = done, max(w.pause, time.Since(asked))
		if len(w.homes) == 0 || w.homes[len(w.homes)-1] != node {
			w.homes = append(w.homes, node)
		}
		if w.jobs >= jobs {
			return nil
		}
		<-ticker.C
	}
}

// judge asks the workers for their jobs. It returns how often jobs were repeated, and how many of
// the numbers 0 to jobs-1 were missing.
func judge(ctx context.Context, client *work.WorkerClient, workers, jobs int64) (twice, missing int, err error) {
	times := map[int64]int{}
	for i := range workers {
		done, err := client.Ref(work.WorkerID(fmt.Sprintf("worker-%d", i))).Done(ctx)
		if err != nil {
			return 0, 0, err
		}
		for _, job := range done {
			if times[job]++; times[job] > 1 {
				twice++
			}
		}
	}
	for job := range jobs {
		if times[job] == 0 {
			missing++
		}
	}
	return twice, missing, nil
}

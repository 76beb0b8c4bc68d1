// Package work has the two entities of the example: a scheduler, one in the cluster, and its
// workers.
package work

import (
	"context"
	"fmt"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// A Scheduler hands out jobs one after another, to each worker in turn. When its node leaves, its
// state moves to another node, so no job is handed out twice.
//
//shard:singleton
type Scheduler struct {
	Next int64 `shard:"state"` // the number of the next job

	Every   time.Duration            `shard:"-"` // between two jobs
	Workers int64                    `shard:"-"`
	Node    string                   `shard:"-"` // where it lives
	Self    SchedulerAPI             `shard:"-"` // itself, as others call it
	Worker  func(WorkerID) WorkerAPI `shard:"-"`
}

// OnActivate starts the loop, whose context ends when the scheduler must stop here. The next
// scheduler, on whatever node, starts when the loop has returned.
func (s *Scheduler) OnActivate(ctx context.Context, _ shard.Activation) error {
	return shard.Go(ctx, s.loop)
}

func (s *Scheduler) loop(ctx context.Context) error {
	ticker := time.NewTicker(s.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		// A turn that has begun ends, also while the scheduler leaves: nothing is
		// half done.
		if err := s.Self.HandOut(context.WithoutCancel(ctx)); err != nil && ctx.Err() == nil {
			return err // the scheduler dies, and is started again
		}
	}
}

// HandOut gives the next job to the next worker.
func (s *Scheduler) HandOut(ctx context.Context) error {
	worker := WorkerID(fmt.Sprintf("worker-%d", s.Next%s.Workers))
	if err := s.Worker(worker).Do(ctx, s.Next); err != nil {
		return fmt.Errorf("hand job %d to %s: %w", s.Next, worker, err)
	}
	s.Next++
	return nil
}

// Status returns how many jobs were handed out, and the scheduler's node.
func (s *Scheduler) Status(context.Context) (jobs int64, node string, err error) {
	return s.Next, s.Node, nil
}

// WorkerID is the id of a worker.
type WorkerID string

// A Worker does jobs.
//
//shard:entity
type Worker struct {
	ID   WorkerID `shard:"id"`
	Jobs []int64  `shard:"state"` // that it has done
}

// Do does one job.
func (w *Worker) Do(_ context.Context, job int64) error {
	w.Jobs = append(w.Jobs, job)
	return nil
}

// Done returns the jobs that the worker has done, in order.
func (w *Worker) Done(context.Context) ([]int64, error) { return w.Jobs, nil }

// Host makes a node host schedulers and workers. Every node calls it; the scheduler lives on the
// oldest node.
func Host(n *shard.Node, every time.Duration, workers int64) {
	self, worker := NewSchedulerClient(n).API(), NewWorkerClient(n)
	_ = HostScheduler(n, func() *Scheduler {
		return &Scheduler{Every: every, Workers: workers, Node: n.Name(), Self: self, Worker: func(id WorkerID) WorkerAPI { return worker.API(id) }}
	}) // Start returns its error, and the next one's
	_ = HostWorker(n, func() *Worker { return &Worker{} })
}

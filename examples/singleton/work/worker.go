package work

import "context"

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

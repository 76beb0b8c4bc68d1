package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/driver/singlehost"
)

type taskRun struct {
	home taskHome
	kind string
	log  *slog.Logger
	life context.Context // the context of the instance
	task singlehost.Task
}

type taskHome interface {
	waitLease(ctx context.Context) error
	mayRun() bool
}

// run runs the task while the node may run the instance, and then calls ended.
func (r *taskRun) run(ended func(error)) {
	var err error
	defer func() { // also when the task ends this goroutine
		if r.life.Err() != nil {
			err = nil // it had to stop
		}
		ended(err)
	}()
	for again := true; again && r.home.waitLease(r.life) == nil; {
		err = errExit
		again, err = r.once()
	}
}

var errExit = errors.New("runtime.Goexit in a task")

// once runs the task until it returns. again is true if the node had lost contact with the cluster
// before the task returned: the task must then run again.
func (r *taskRun) once() (again bool, err error) {
	ctx, cancel := context.WithCancel(r.life)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(ctx, cancel) })
	defer watch.Wait()
	defer cancel()
	err = r.call(ctx)
	if ctx.Err() != nil && r.life.Err() == nil {
		return true, nil
	}
	return false, err
}

const leaseTick = 50 * time.Millisecond

// watch cancels a task's context when the node may no longer run the instance.
func (r *taskRun) watch(ctx context.Context, cancel context.CancelFunc) {
	ticker := time.NewTicker(leaseTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !r.home.mayRun() {
				cancel()
				return
			}
		}
	}
}

func (r *taskRun) call(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("panic in a singleton's task", "kind", r.kind, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic in a task: %v", p)
		}
	}()
	return r.task(ctx)
}

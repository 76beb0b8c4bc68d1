package singlehost

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// tasks are the goroutines that an instance runs beside its methods. Each ends before the next instance
// starts.
type tasks struct {
	instance *Instance
	running  sync.WaitGroup
	had      bool // this instance has started one; guarded by the shard's lock
}

// startLocked starts a task of the instance's life. The shard's lock is held, so that nobody
// waits already.
func (ts *tasks) startLocked(life context.Context, task func(context.Context) error) {
	ts.running.Add(1)
	ts.had = true
	ts.instance.home.Go(func() {
		defer ts.running.Done()
		for ts.instance.home.WaitLease(life) == nil && ts.once(life, task) {
		}
	})
}

var errExit = errors.New("runtime.Goexit in a task")

// once runs a task until it returns. It reports whether the task is to be run again, because
// it returned after the node had lost contact.
func (ts *tasks) once(life context.Context, task func(context.Context) error) (again bool) {
	ctx, cancel := context.WithCancel(life)
	var watch sync.WaitGroup
	watch.Go(func() { ts.watch(ctx, cancel) })
	err := errExit
	defer func() {
		lapsed := ctx.Err() != nil && err != errExit //nolint:errorlint // the value itself
		cancel()
		watch.Wait()
		switch {
		case life.Err() != nil: // it had to stop
		case lapsed:
			again = true
		case err != nil:
			ts.instance.Fail(err.Error())
		}
	}()
	err = ts.call(ctx, task)
	return false
}

// leaseTick is how often a task's right to run is looked at.
const leaseTick = 50 * time.Millisecond

// watch ends a task's context when the node may not run the instance any more.
func (ts *tasks) watch(ctx context.Context, cancel context.CancelFunc) {
	ticker := time.NewTicker(leaseTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !ts.instance.home.MayRun() {
				cancel()
				return
			}
		}
	}
}

// call runs a task once and turns a panic into an error.
func (ts *tasks) call(ctx context.Context, task func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			ts.instance.home.Log().Error("panic in a singleton's task", "kind", ts.instance.shard.ID.Kind, "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic in a task: %v", r)
		}
	}()
	return task(ctx)
}

// taskPatience is how long a task may go on after the end of its context before the log
// warns of it.
const taskPatience = 5 * time.Second

// wait waits for the tasks, whose context has ended. There is no bound: the next instance
// must not run beside them.
func (ts *tasks) wait() {
	late := time.AfterFunc(taskPatience, func() {
		ts.instance.home.Log().Warn("singleton cannot stop: a task goes on although its context has ended", "kind", ts.instance.shard.ID.Kind, "after", taskPatience)
	})
	defer late.Stop()
	ts.running.Wait()
}

// waitFor waits for the tasks until ctx ends.
func (ts *tasks) waitFor(ctx context.Context) {
	ended := make(chan struct{})
	ts.instance.home.Go(func() { // outlives this call only if a task does, which the process waits for too
		ts.running.Wait()
		close(ended)
	})
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

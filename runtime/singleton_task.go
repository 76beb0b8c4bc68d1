package shard

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Go starts a task of a singleton's instance: work that goes on between calls, such as a
// loop with a ticker. ctx is that of OnActivate or of a method.
//
// The task's context ends when the instance must stop: when it is handed over or dies, or
// when the node may no longer run it. The next instance, on whatever node, starts only
// after the task has returned, so the task should return soon. If the node has lost
// contact with the cluster, the context ends too, and task is called again when the
// contact is back.
//
// A task runs beside the methods. Fields that both use need a lock, or the task calls the
// singleton through its client. A task that returns nil has ended. An error, a panic or
// runtime.Goexit ends the instance, which is started again after a pause.
//
// Go fails with [ErrNotSingleton] for other entities.
func Go(ctx context.Context, task func(context.Context) error) error {
	t := turnOf(ctx)
	if t == nil || t.shard().host.instance == nil {
		return fmt.Errorf("start a task: %w (pass the context of a singleton's method or OnActivate)", ErrNotSingleton)
	}
	in := t.shard().host.instance
	s := in.shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if in.stopping || in.dying {
		return fmt.Errorf("start a task of %s: %w: the instance at %s is ending (start tasks from OnActivate of the next one)", s.ID.Kind, ErrClosed, s.plane().self.Name)
	}
	life := in.life
	in.tasks.Add(1)
	s.plane().wg.Go(func() { in.run(life, task) })
	return nil
}

// run runs a task until it returns by itself or the instance's life ends.
func (in *instance) run(life context.Context, task func(context.Context) error) {
	defer in.tasks.Done()
	for in.shard.waitLease(life) == nil && in.once(life, task) {
	}
}

var errExit = errors.New("runtime.Goexit in a task")

// once runs a task until it returns. It reports whether the task is to be run again,
// because it returned after the node had lost contact.
func (in *instance) once(life context.Context, task func(context.Context) error) (again bool) {
	ctx, cancel := context.WithCancel(life)
	var watch sync.WaitGroup
	watch.Go(func() { in.watch(ctx, cancel) })
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
			in.fail(err.Error())
		}
	}()
	err = in.call(ctx, task)
	return false
}

// watch ends a task's context when the node may not run the instance any more.
func (in *instance) watch(ctx context.Context, cancel context.CancelFunc) {
	ticker := time.NewTicker(leaseTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !in.shard.mayRun() {
				cancel()
				return
			}
		}
	}
}

// leaseTick is how often a task's right to run is looked at.
const leaseTick = 50 * time.Millisecond

// call runs a task once and turns a panic into an error.
func (in *instance) call(ctx context.Context, task func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			in.shard.plane().log.Error("panic in a singleton's task", "kind", in.shard.ID.Kind, "panic", r, "stack", string(debug.Stack()))
			err = panicError("a task", r)
		}
	}()
	return task(ctx)
}

// waitTasks waits for the instance's tasks, whose context has ended. There is no
// bound: the next instance must not run beside them.
func (in *instance) waitTasks() {
	s := in.shard
	late := time.AfterFunc(turnPatience, func() {
		s.plane().log.Warn("singleton cannot stop: a task goes on although its context has ended", "kind", s.ID.Kind, "after", turnPatience)
	})
	defer late.Stop()
	in.tasks.Wait()
}

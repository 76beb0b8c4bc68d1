package shard

import (
	"context"
	"fmt"

	"github.com/shardgen/shardgen/internal/singlehost"
)

// Go starts a task of a singleton's instance: work that goes on between calls, such as a
// loop with a ticker. ctx is that of OnActivate or of a method.
//
// The task's context ends when the instance must stop: when it is handed off or dies, or
// when the node may no longer run it. The next instance, on any node, starts only after
// the task has returned, so the task should return soon. If the node has lost contact
// with the cluster, the context ends too, and task is called again when the contact is
// back.
//
// A task runs beside the methods. Fields that both use need a lock, or the task calls the
// singleton through its client. A task that returns nil has ended. An error, a panic or
// runtime.Goexit ends the instance, which is started again after a pause.
//
// A task of a durable singleton begins when the changes of the turn that starts it, or of
// OnActivate, are in the store. It must not change the state: it calls a method through the client,
// and the change is committed when the call is answered. A change that a task has made itself is
// undone before the next turn, and ends the instance.
//
// Go fails with [ErrNotSingleton] for other entities.
func Go(ctx context.Context, task func(context.Context) error) error {
	t := turnOf(ctx)
	if t == nil || t.shard().host.instance == nil {
		return fmt.Errorf("start a task: %w (pass the context of a singleton's method or OnActivate)", ErrNotSingleton)
	}
	s := t.shard()
	start := s.host.instance.Go
	if d := s.durable; d != nil {
		start = func(task singlehost.Task) bool {
			begin, ok := s.host.instance.Prepare(task)
			if ok {
				d.tasks.add(begin)
			}
			return ok
		}
	}
	if !start(task) {
		return fmt.Errorf("start a task of %s: %w: the instance at %s is ending (start tasks from OnActivate of the next one)", s.ID.Kind, ErrClosed, s.driver().self.Name)
	}
	return nil
}

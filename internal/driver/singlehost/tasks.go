package singlehost

import (
	"context"
	"log/slog"
	"time"
)

// A Task is work that an instance has started beside its methods. It returns soon after ctx
// has ended.
type Task func(ctx context.Context) error

// tasks are the tasks of an instance. Each ends before the next instance starts. Its fields
// are guarded by the shard's lock.
type tasks struct {
	instance *Instance
	running  int
	had      bool     // this instance has started one
	waiting  []func() // called when none runs any more
}

// startLocked starts a task of the instance's life. The shard's lock is held, so that nobody
// waits already.
func (ts *tasks) startLocked(life context.Context, task Task) {
	ts.running++
	ts.had = true
	ts.instance.home.RunTask(life, task, ts.ended)
}

// ended notes that a task is over; with an error the instance ends.
func (ts *tasks) ended(err error) {
	if err != nil {
		ts.instance.Fail(err.Error())
	}
	in := ts.instance
	in.shard.Mu.Lock()
	var after []func()
	if ts.running--; ts.running == 0 {
		after, ts.waiting = ts.waiting, nil
	}
	in.shard.Mu.Unlock()
	for _, f := range after {
		in.home.Go(f)
	}
}

// taskPatience is how long a task may go on after the end of its context before the log
// warns of it.
const taskPatience = 5 * time.Second

// then calls f when no task is left of those whose context has ended: at once, if none is.
// There is no bound: the next instance must not run beside them.
func (ts *tasks) then(f func()) {
	in := ts.instance
	in.shard.Mu.Lock()
	none, over := ts.running == 0, false // over is guarded by the shard's lock
	if !none {
		ts.waiting = append(ts.waiting, func() {
			in.shard.Mu.Lock()
			over = true
			in.shard.Mu.Unlock()
			f()
		})
	}
	in.shard.Mu.Unlock()
	if none {
		f()
		return
	}
	in.home.After(taskPatience, func() {
		in.shard.Mu.Lock()
		late := !over
		in.shard.Mu.Unlock()
		if late {
			in.home.Log(slog.LevelWarn, "singleton cannot stop: a task goes on although its context has ended",
				"kind", in.shard.ID.Kind, "after", taskPatience)
		}
	})
}

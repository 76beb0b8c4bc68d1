package singlehost

import (
	"context"
	"log/slog"
	"time"
)

// A Task is work that an instance runs beside its methods. It must return soon after ctx has ended.
type Task func(ctx context.Context) error

// tasks are an instance's tasks. All end before the next instance starts. The shard's lock guards
// the fields.
type tasks struct {
	instance *Instance
	running  int
	had      bool     // the current instance has started a task
	waiting  []func() // called when no task is running
}

// startLocked starts a task whose context is life. The caller has the shard's lock, and the
// instance is not ending.
func (ts *tasks) startLocked(life context.Context, task Task) {
	ts.running++
	ts.had = true
	ts.instance.home.RunTask(life, task, ts.ended)
}

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

// taskPatience is how long a task may outlast its context before that is logged.
const taskPatience = 5 * time.Second

// then calls f when no task is running. It waits without a time limit, because the next instance
// must not run beside these tasks.
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

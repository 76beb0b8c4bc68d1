// Package job has an entity that does something again and again, as a line of crontab does.
package job

import (
	"context"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// A Job runs by a repeating reminder. The reminder is kept with the job's state, so the job runs
// wherever it lives, also after a restart of everything.
//
//shard:entity durable
type Job struct {
	ID   string `shard:"id"`
	Runs int64  `shard:"state"` // so far
	Node string `shard:"-"`     // where it lives
}

// A Run is published with the commit of the run, on the subject runs.ID.
type Run struct {
	Job    string
	Due    time.Time // the period's time
	Number int64     // 1 is the first run
	Node   string
}

// Every lets the job run once each period, which is at least 1 s. Periods missed while no worker
// runs are made up for by a run each.
func (j *Job) Every(ctx context.Context, period time.Duration) error {
	return JobSelf(ctx, shard.Every(period), shard.CatchUpEach()).Run(ctx)
}

// Cron lets the job run at the local times of a zone, as "0 9 * * 1-5" in "Europe/Berlin". If no worker
// is there at several of these times, it runs once for all of them, but not if the last one is over
// an hour ago.
func (j *Job) Cron(ctx context.Context, times, zone string) error {
	return JobSelf(ctx, shard.Cron(times, zone), shard.SkipLate(time.Hour)).Run(ctx)
}

// Stop ends the job. It does not run after Stop has returned.
func (j *Job) Stop(ctx context.Context) error {
	_, err := shard.Unschedule(ctx, "Run")
	return err
}

// Run is what the job does. An error of [shard.TryAgain] would let it run again soon.
func (j *Job) Run(ctx context.Context) error {
	fired, _ := shard.Fired(ctx)
	j.Runs++
	return shard.Publish(ctx, "runs."+j.ID, Run{j.ID, fired.Due, j.Runs, j.Node})
}

// Home returns the node on which the job lives.
//
//shard:read
func (j *Job) Home(context.Context) (node string, err error) { return j.Node, nil }

// Host makes a node host jobs.
func Host(n *shard.Node) error {
	return HostJob(n, func() *Job { return &Job{Node: n.Name()} })
}

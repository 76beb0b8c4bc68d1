package job_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/scheduler/job"
	"github.com/shardgen/shardgen/shardtest"
)

// runs returns the runs that were published, in order.
func runs(t *testing.T, c *shardtest.Cluster, id string) (all []job.Run) {
	t.Helper()
	for _, m := range c.Store().Published("runs." + id) {
		var r job.Run
		if err := json.Unmarshal(m.Data, &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// TestEvery kills all nodes for some periods: each period has one run, in order, not before it is due.
func TestEvery(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		c.Store().SetStream(0, "runs.*")
		if err := job.NewJobClient(c.Client()).Ref("beat").Every(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		c.Advance(3500 * time.Millisecond)
		for _, node := range []string{"n1", "n2", "n3"} {
			c.Kill(node)
		}
		c.Advance(5 * time.Second)
		if got := len(runs(t, c, "beat")); got != 3 {
			t.Errorf("%d runs before all were killed, want 3", got)
		}
		c.Start("n4")
		// Nobody calls a job.
		c.Until("all periods have run", func() bool { return len(runs(t, c, "beat")) >= 12 })
		for i, r := range runs(t, c, "beat") {
			want := began.Add(time.Duration(i+1) * time.Second)
			if off := r.Due.Sub(want).Abs(); r.Number != int64(i+1) || off > 50*time.Millisecond {
				t.Errorf("run %d has number %d and is due at %v, want %v", i+1, r.Number, r.Due, want)
			}
		}
		if got, want := time.Since(began), 12*time.Second; got < want {
			t.Errorf("12 runs after %v, want %v", got, want)
		}
	}, shardtest.Nodes(3), shardtest.Host(job.Host))
}

// TestCron lets a week pass: the job runs on working days at nine in Berlin.
func TestCron(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		c.Store().SetStream(0, "runs.*")
		jobs := job.NewJobClient(c.Client())
		if err := jobs.Ref("report").Cron(t.Context(), "0 9 * * 1-5", "Europe/Berlin"); err != nil {
			t.Fatal(err)
		}
		berlin, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		skipped := time.Duration(0) // by which the store's clock is ahead
		for n := range 5 {
			all, err := jobs.Scheduled(t.Context(), "report")
			if err != nil || len(all) != 1 {
				t.Fatalf("got reminders %v, %v; want one", all, err)
			}
			due := all[0].Due.In(berlin)
			if due.Hour() != 9 || due.Weekday() == time.Saturday || due.Weekday() == time.Sunday {
				t.Errorf("it is due at %v, want a working day at nine", due)
			}
			skip := due.Sub(time.Now().Add(skipped))
			skipped += skip
			c.SkipTime(skip)
			c.Until("it has run", func() bool { return len(runs(t, c, "report")) > n })
			if r := runs(t, c, "report")[n]; !r.Due.Equal(due) {
				t.Errorf("run %d was due at %v, want %v", n+1, r.Due, due)
			}
		}
		if err := jobs.Ref("report").Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.SkipTime(7 * 24 * time.Hour)
		c.Advance(time.Minute)
		if got := len(runs(t, c, "report")); got != 5 {
			t.Errorf("%d runs after the job was stopped, want 5", got)
		}
	}, shardtest.Host(job.Host))
}

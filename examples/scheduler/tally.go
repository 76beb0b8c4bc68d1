package main

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/examples/scheduler/job"
)

// A tally counts runs.
type tally struct {
	runs   int
	early  int                    // runs that were in the stream before they were due
	latest time.Duration          // after the due time
	due    map[string][]time.Time // of each job's runs
}

// add adds run r, whose message arrived in the stream at the time at.
func (t *tally) add(r job.Run, at time.Time) {
	t.runs++
	if at.Before(r.Due) {
		t.early++
	}
	t.latest = max(t.latest, at.Sub(r.Due))
	t.due[r.Job] = append(t.due[r.Job], r.Due)
}

// complete reports whether each job has run at least periods times.
func (t *tally) complete(jobs, periods int) bool {
	for i := range jobs {
		if len(t.due[jobID(i)]) < periods {
			return false
		}
	}
	return true
}

// judge returns how many runs were repetitions, and how many were missing.
func (t *tally) judge(jobs, periods int) (twice, missing int) {
	for i := range jobs {
		due := slices.Clone(t.due[jobID(i)])
		slices.SortFunc(due, time.Time.Compare)
		if len(due) == 0 {
			missing += periods
			continue
		}
		for i := range due[1:] {
			switch gap := due[i+1].Sub(due[i]); {
			case gap < period:
				twice++
			default:
				missing += int(gap/period) - 1
			}
		}
	}
	return twice, missing
}

package durable

import (
	"math/rand/v2"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
)

// A plan has the decisions of a seed before anything happens.
type plan struct {
	homes, shards, accounts, callers int
	faults                           int
	pause                            time.Duration // the most between two faults
	think                            time.Duration // the most between two calls
	idle                             time.Duration // the most until an idle account is passivated
	checkpoints                      float64       // the share of passivations that ask for one
	panics                           float64
	padding                          int // the most bytes of a state beside the balance
	lost, late                       float64
	trouble                          trouble
	limits                           durable.Limits
	memory                           bool // the store is that of package memory
	closed                           bool // accounts change by calls of callers alone
	without                          without
	journaling                       durable.Journal
	journal                          bool          // accounts record events
	ttl                              time.Duration // of accounts; 0 means they do not expire
	sweeps                           time.Duration // the most between two sweeps of a shard; 0 means there are none
	keys                             bool          // some commands have a key
	singletons                       bool          // shards of singletons, whose epochs nobody gives out
	skew                             time.Duration // by which clocks differ from the true time at most
	versions                         bool          // later programs come, with states of a later version
	unsynced                         bool          // the server's machine crashes, and has not all on its disk
}

// without takes rules out of the driver, for tests that show the purpose of each.
type without struct{ lostTerm bool }

func newPlan(r *rand.Rand) plan {
	pick := func(of ...float64) float64 { return of[r.IntN(len(of))] }
	p := plan{
		homes: 2 + r.IntN(3), shards: 1 + r.IntN(3), accounts: 2 + r.IntN(8), callers: 2 + r.IntN(6),
		faults: 4 + r.IntN(10), pause: time.Duration(300+r.IntN(2500)) * time.Millisecond,
		think: time.Duration(1+r.IntN(60)) * time.Millisecond, idle: time.Duration(1+r.IntN(400)) * time.Millisecond,
		checkpoints: pick(0, 0.05, 0.5), panics: pick(0, 0.05), padding: 1 + int(pick(0, 20, 200)),
		memory: r.IntN(2) == 0, lost: pick(0, 0.02, 0.1), late: pick(0, 0.02),
		trouble: trouble{late: pick(0, 0.01, 0.05), loses: pick(0, 0.01, 0.1), busy: pick(0, 0.05), stale: pick(0, 0.1, 0.5)},
		limits: durable.Limits{
			AppendBytes: 400 + r.IntN(4000), TailCommits: 10 + r.IntN(100), TailBytes: 4000 + r.IntN(20_000),
			Commands: int(pick(30, 300, 2000)), Silent: 40 * time.Second,
			DeadAfter: time.Duration(pick(3, 600, 600)) * time.Second,
		},
	}
	if p.journal = r.IntN(2) == 0; p.journal {
		p.journaling = durable.Journal{On: true, Every: 1 + r.IntN(20), Followers: r.IntN(2) == 0}
	}
	p.ttl = time.Duration(pick(0, 0, 100, 500, 3000)) * time.Millisecond
	p.skew = time.Duration(pick(0, 100, 2000, 10_000)) * time.Millisecond
	p.singletons = r.IntN(4) == 0
	p.versions, p.keys = r.IntN(2) == 0, r.IntN(2) == 0
	if p.ttl > 0 {
		p.sweeps = time.Duration(pick(0, 50, 2000)) * time.Millisecond
	}
	if p.journal {
		p.journaling.Age = time.Duration(pick(0, 0, 500, 5000)) * time.Millisecond
		p.journaling.Events = uint64(pick(0, 0, 1, 20))
	}
	return p
}

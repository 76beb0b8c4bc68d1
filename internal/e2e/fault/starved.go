package fault

import (
	"context"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cgroup"
)

// starved: a node gets a twentieth of a core, as beside a greedy neighbour on one
// machine. It answers late, if at all, and may be removed. What it says of others
// removes nobody: it is the one that is late.
var starved = Fault{
	Name:         "starved",
	About:        "for 5m a node gets 5% of a core, by a control group",
	Victim:       -1,
	Nodes:        5,
	Length:       5 * time.Minute,
	Needs:        cgroup.Supported,
	SparesOthers: true,
	Within:       2 * time.Minute,
	Limits:       cutLimits,
	Inject: func(ctx context.Context, r *Run) (err error) {
		if err := r.spread(ctx); err != nil {
			return err
		}
		group, err := cgroup.New()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, group.Close()) }()
		if err := group.Limit(starvedTo); err != nil {
			return err
		}
		r.Begin()
		v := r.Strike(r.Victim)[0]
		if err := group.Add(r.Victim.Pid()); err != nil {
			return err
		}
		if err := r.Sleep(ctx, r.Length); err != nil {
			return err
		}
		throttled, of, err := group.Throttled()
		if err != nil {
			return err
		}
		r.Note("%s wanted more than it got in %d of %d periods of 100ms", v.node.Name(), throttled, of)
		r.noteOthers(v)
		if err := group.Close(); err != nil {
			return err
		}
		return r.fed(ctx, v)
	},
}

const starvedTo = 5 // percent of a core

// noteOthers notes the fate of the victim, and how the entities of the others
// answered meanwhile.
func (r *Run) noteOthers(v victim) {
	now := time.Now()
	p50, p99 := r.Load.Latency(v.since, now, func(entity string) bool { return !v.living[entity] })
	own50, own99 := r.Load.Latency(v.since, now, func(entity string) bool { return v.living[entity] })
	r.Note("p50 and p99 meanwhile: entities of %s %v and %v, all others %v and %v",
		v.node.Name(), round(own50), round(own99), round(p50), round(p99))
	if at := r.removal(v.node.Name(), v.since); !at.IsZero() {
		r.Note("%s was given up %v after the fault; %d changes of the view", v.node.Name(), round(at.Sub(v.since)), r.changes(v.since))
	} else {
		r.Note("%s was not given up; %d changes of the view", v.node.Name(), r.changes(v.since))
	}
}

// fed waits until all is as before the victim starved. If it was removed its
// process ends, and another one is started.
func (r *Run) fed(ctx context.Context, v victim) error {
	r.Begin() // figures count from here
	k := r.keep(v.node)
	defer func() { _ = k.end() }()
	if !r.removal(v.node.Name(), v.since).IsZero() {
		if err := r.Until(ctx, v.node.Name()+" has ended", v.node.Ended); err != nil {
			return err
		}
		if err := r.judgeOwners(v); err != nil {
			return err
		}
	}
	if err := r.oneView(ctx, r.began, lossViewWithin); err != nil {
		return err
	}
	return r.spread(ctx)
}

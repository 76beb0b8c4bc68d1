package fault

import (
	"context"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cgroup"
)

// starved gives a node a twentieth of a core. The node may be removed. It must remove no other
// node, although all others seem late to it.
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
		s := starvation{r, v}
		s.noteOthers()
		if err := group.Close(); err != nil {
			return err
		}
		return s.end(ctx)
	},
}

const starvedTo = 5 // percent of a core

type starvation struct {
	*Run
	victim
}

// noteOthers adds notes on whether the victim was removed, and on the latencies meanwhile.
func (s starvation) noteOthers() {
	now := time.Now()
	p50, p99 := s.Load.Latency(s.since, now, func(entity string) bool { return !s.living[entity] })
	own50, own99 := s.Load.Latency(s.since, now, func(entity string) bool { return s.living[entity] })
	s.Note("p50 and p99 meanwhile: entities of %s %v and %v, all others %v and %v",
		s.node.Name(), round(own50), round(own99), round(p50), round(p99))
	if at := s.removal(s.node.Name(), s.since); !at.IsZero() {
		s.Note("%s was given up %v after the fault; %d changes of the view", s.node.Name(), round(at.Sub(s.since)), s.changes(s.since))
	} else {
		s.Note("%s was not given up; %d changes of the view", s.node.Name(), s.changes(s.since))
	}
}

// end waits until all nodes have one view and an even share of the entities. A removed victim must
// end, and is replaced.
func (s starvation) end(ctx context.Context) error {
	s.Begin() // figures count from here
	k := keepUp(s.Cluster, s.node)
	defer func() { _ = k.end() }()
	if !s.removal(s.node.Name(), s.since).IsZero() {
		if err := s.Until(ctx, s.node.Name()+" has ended", s.node.Ended); err != nil {
			return err
		}
		if err := s.judgeHomes(s.victim); err != nil {
			return err
		}
	}
	if err := s.oneView(ctx, s.began, lossViewWithin); err != nil {
		return err
	}
	return s.spread(ctx)
}

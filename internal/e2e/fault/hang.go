package fault

import (
	"context"
	"strings"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	shard "github.com/shardgen/shardgen/runtime"
)

// hang suspends a process for a long time, as if it were stuck in the kernel. The process's
// connections stay open, so the broker cannot report it gone. The other nodes remove the process
// and take over its entities. Calls that the process has received but not started wait. When the
// process goes on, it runs no turn and ends.
//
// A process that is suspended for less than hangRemoves must not be removed.
var hang = Fault{
	Name:   "hang",
	About:  "the process of a node stands still for 30s, by SIGSTOP, and goes on",
	Victim: -1,
	Length: 30 * time.Second,
	Limits: Limits{
		Failed: 0, Unknown: unjudged, Lost: 0, Doubled: 0, Disorder: 0, Misstated: 0,
		Pause: unjudged, Recovery: hangRecovers,
	},
	Inject: func(ctx context.Context, r *Run) error {
		// The run must know which entities and relays lose their state.
		if err := r.Until(ctx, "every relay has answered", func() bool { return r.Load.Unseen() == 0 }); err != nil {
			return err
		}
		r.Begin()
		living := r.Load.LivingAt(r.Victim.Name())
		stopped := time.Now()
		if err := r.Victim.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		err := r.Sleep(ctx, r.Length)
		resumed := time.Now()
		if cont := r.Victim.Signal(syscall.SIGCONT); err == nil {
			err = cont
		}
		if err != nil {
			return err
		}
		if r.Length < hangRemoves {
			r.misses = append(r.misses, r.removed()...)
		} else {
			r.Died(living)
			if err := r.replaced(ctx, stopped, resumed); err != nil {
				return err
			}
		}
		n, first, last := r.Load.Failures(stopped)
		if n == 0 {
			r.Note("no call failed")
			return nil
		}
		r.Note("%d bursts of calls failed, from %v to %v after the SIGSTOP", n, round(first.Sub(stopped)), round(last.Sub(stopped)))
		if d := last.Sub(stopped); d > hangRecovers {
			r.Miss("the last call failed %v after the SIGSTOP, want at most %v", round(d), hangRecovers)
		}
		return nil
	},
}

const (
	// hangRemoves is the shortest length that must get the process removed and replaced.
	hangRemoves = 10 * time.Second
	// hangRecovers is the time within which all calls must succeed again.
	hangRecovers = 8 * time.Second
	// zombieEnds bounds how long a replaced process lives after it goes on.
	zombieEnds = time.Second
)

func (r *Run) replaced(ctx context.Context, stopped, resumed time.Time) error {
	for _, n := range r.Nodes {
		for _, e := range n.Said() {
			if n != r.Victim && givenUp(e) && e.Kind == shard.EventDowned.String() {
				r.Note("%s saw %s downed %v after the SIGSTOP", n.Name(), e.Member, round(e.Time.Sub(stopped)))
				if e.Member != r.Victim.Name() {
					r.Miss("%s, which did not stand still, was downed", e.Member)
				}
			}
		}
	}
	limit := time.NewTimer(zombieEnds - time.Since(resumed))
	defer limit.Stop()
	select {
	case <-r.Victim.Done():
		r.Note("%s ended %v after the SIGCONT", r.Victim.Name(), round(time.Since(resumed)))
	case <-limit.C:
		r.Miss("%s has not ended %v after the SIGCONT", r.Victim.Name(), zombieEnds)
		return nil
	}
	if said := r.Victim.Said(); len(said) == 0 || !strings.Contains(said[len(said)-1].Error, shard.ErrDowned.Error()) {
		r.Miss("%s did not say that it was downed: %v", r.Victim.Name(), said[max(0, len(said)-1):])
	}
	ran, err := r.Victim.Witnessed()
	if err != nil {
		return err
	}
	late := 0
	for _, record := range ran {
		if record.At > resumed.UnixNano() {
			late++
		}
	}
	if late > 0 {
		r.Miss("%s ran %d calls after the SIGCONT", r.Victim.Name(), late)
	}
	return awaitMoved(ctx, r)
}

// pause lets a process stand still briefly, like a migrating virtual machine. Calls wait, and the
// process is not removed.
var pause = Fault{
	Name:   "pause",
	About:  "the process of a node stands still for 2s, by SIGSTOP, and goes on",
	Victim: -1,
	Nodes:  5,
	Length: 2 * time.Second,
	Spares: true,
	Limits: Limits{Pause: 4 * time.Second, Recovery: 5 * time.Second},
	Inject: func(ctx context.Context, r *Run) error {
		if err := r.Victim.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		err := r.Sleep(ctx, r.Length)
		if cont := r.Victim.Signal(syscall.SIGCONT); err == nil {
			err = cont
		}
		return err
	},
}

// durablePause suspends a process until other nodes have taken over its shards. When the process
// goes on, the store refuses its writes.
var durablePause = Fault{
	Name:    "durable-pause",
	About:   "the process of a node with durable entities stands still for 30s, by SIGSTOP, and goes on",
	Subject: OnDurable,
	Nodes:   5,
	Times:   5,
	Rate:    1000,
	Length:  30 * time.Second,
	// More than half agree after 5 s of silence, and the lease is over by then.
	Limits: Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 10 * time.Second},
	Hit: func(_ context.Context, d *DurableRun) (Strike, error) {
		victim := d.Nodes[d.Before%len(d.Nodes)]
		b := Strike{
			Victim: victim.Name(), At: time.Now(), Nodes: []*cluster.Node{victim}, Length: d.Length, Stays: true,
			End: func(context.Context) error { return victim.Signal(syscall.SIGCONT) },
		}
		return b, victim.Signal(syscall.SIGSTOP)
	},
}

// longPause lets a process stand still until it is removed, like a suspended virtual machine.
// Afterwards it must run no turns, and end.
var longPause = Fault{
	Name:         "long-pause",
	About:        "the process of a node stands still for 60s, by SIGSTOP, and goes on when it was removed",
	Victim:       -1,
	Nodes:        5,
	Length:       time.Minute,
	SparesOthers: true,
	Within:       90 * time.Second,
	Limits:       cutLimits,
	Inject: func(ctx context.Context, r *Run) error {
		if err := r.spread(ctx); err != nil {
			return err
		}
		r.Begin()
		v := r.Strike(r.Victim)[0]
		if err := r.Victim.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		err := r.Sleep(ctx, r.Length)
		woken := time.Now()
		if cont := r.Victim.Signal(syscall.SIGCONT); err == nil {
			err = cont
		}
		if err != nil {
			return err
		}
		r.noteRemoval("", v, r.Length)
		if r.Length < certainlyRemoved {
			return nil // the process may go on running
		}
		return sleeper{r, v, woken}.judge(ctx)
	},
}

// exitLimit bounds how long a removed process lives after it goes on.
const exitLimit = time.Second

type sleeper struct {
	*Run
	victim
	woken time.Time
}

func (s sleeper) judge(ctx context.Context) error {
	if err := s.Until(ctx, s.node.Name()+" has ended", s.node.Ended); err != nil {
		return err
	}
	took := time.Since(s.woken)
	s.Note("it ended %v after it went on", round(took))
	if took > exitLimit {
		s.Miss("the removed process ended %v after it went on, want at most %v", round(took), exitLimit)
	}
	ran, err := s.node.Witnessed()
	if err != nil {
		return err
	}
	turns := 0
	for _, call := range ran {
		if call.At >= s.woken.UnixNano() {
			turns++
		}
	}
	if s.Note("it ran %d turns after it went on", turns); turns > 0 {
		s.Miss("the removed process ran %d turns after it went on, want none", turns)
	}
	if err := s.judgeHomes(s.victim); err != nil {
		return err
	}
	started, err := s.Cluster.Start(ctx, s.node.Name())
	if err != nil {
		return err
	}
	s.Note("%s is up again", started[0].Name())
	if err := s.oneView(ctx, s.woken, viewLimit); err != nil {
		return err
	}
	return s.spread(ctx)
}

package fault

import (
	"context"
	"syscall"
	"time"
)

// longPause: a process stands still for so long that it is removed, as a virtual
// machine that is suspended, and then goes on as if nothing had been. Others have
// its entities: it must not run one more turn, and end.
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
		r.noteRemoval("", v)
		if r.Length < certainlyRemoved {
			return nil // it may go on
		}
		return r.awake(ctx, v, woken)
	},
}

// exitLimit is how soon a process that was removed ends when it goes on.
const exitLimit = time.Second

// awake judges a process that goes on after it was removed, and starts
// it again.
func (r *Run) awake(ctx context.Context, v victim, woken time.Time) error {
	if err := r.Until(ctx, v.node.Name()+" has ended", v.node.Ended); err != nil {
		return err
	}
	took := time.Since(woken)
	r.Note("it ended %v after it went on", round(took))
	if took > exitLimit {
		r.Miss("it ended %v after it went on, want at most %v", round(took), exitLimit)
	}
	ran, err := v.node.Witnessed()
	if err != nil {
		return err
	}
	turns := 0
	for _, call := range ran {
		if call.At >= woken.UnixNano() {
			turns++
		}
	}
	if r.Note("it ran %d turns after it went on", turns); turns > 0 {
		r.Miss("%d turns after it went on, want none", turns)
	}
	if err := r.judgeOwners(v); err != nil {
		return err
	}
	started, err := r.Cluster.Start(ctx, v.node.Name())
	if err != nil {
		return err
	}
	r.Note("%s is up again", started[0].Name())
	if err := r.oneView(ctx, woken, viewLimit); err != nil {
		return err
	}
	return r.spread(ctx)
}

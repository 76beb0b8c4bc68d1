package fault

import (
	"context"
	"syscall"
	"time"
)

// longPause is the fault in which a process stands still for so long that it is removed, as a
// virtual machine that is suspended, and then goes on as if nothing had been. Others have its
// entities: it must not run one more turn, and must end.
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
			return nil // it may go on
		}
		return sleeper{r, v, woken}.judge(ctx)
	},
}

// exitLimit is how soon a process that was removed ends when it goes on.
const exitLimit = time.Second

// A sleeper is a process that went on after it had stood still for long.
type sleeper struct {
	*Run
	victim
	woken time.Time
}

// judge waits until the process, which was removed, has ended, and starts it again.
func (s sleeper) judge(ctx context.Context) error {
	if err := s.Until(ctx, s.node.Name()+" has ended", s.node.Ended); err != nil {
		return err
	}
	took := time.Since(s.woken)
	s.Note("it ended %v after it went on", round(took))
	if took > exitLimit {
		s.Miss("it ended %v after it went on, want at most %v", round(took), exitLimit)
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
		s.Miss("%d turns after it went on, want none", turns)
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

package fault

import (
	"context"
	"syscall"
	"time"
)

// pause: a process stands still for a moment, as a virtual machine that is moved.
// Calls to it wait, and nobody gives it up.
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

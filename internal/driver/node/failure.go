package node

import (
	"context"
	"errors"
	"fmt"
)

// failure is the error of a method or an activation, for the supervisor.
type failure struct {
	method string
	err    error
	panics bool // the method panicked, or ended its goroutine
}

// outcome says for operators whether the call ran, and how it failed, without the text of the error, which may hold
// arguments and state.
func (f *failure) outcome(read func(error) (CallFailure, bool)) string {
	call, ok := read(f.err)
	switch {
	case errors.Is(f.err, ErrActivation):
		return "not executed: the entity could not be activated"
	case f.panics:
		return "executed: it panicked"
	case ok && call.Err != nil:
		return fmt.Sprintf("executed: its call of %s.%s failed", call.Kind, call.Method)
	case ok:
		return fmt.Sprintf("executed: its call of %s.%s returned an error", call.Kind, call.Method)
	case errors.Is(f.err, context.DeadlineExceeded):
		return "executed: its deadline passed"
	case errors.Is(f.err, context.Canceled):
		return "executed: its context was canceled"
	}
	return "executed: it returned an error"
}

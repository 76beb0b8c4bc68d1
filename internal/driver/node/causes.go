package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
)

// Causes of failed calls, and their remedies. Texts are made only when a call has
// failed, so a call that succeeds pays nothing for them.

// Causes in the error of a call that ended without an answer, because its deadline passed or its
// caller gave up. A cause says what the call waited for until then.
var (
	errNoHome     = errors.New("the entity's shard has no home yet")
	errNoAnswer   = errors.New("no answer")
	errBusy       = errors.New("the entity was busy")
	ErrMoving     = errors.New("the entity's shard kept moving")
	errOutOfReach = errors.New("the call did not arrive")
)

var errPassed = errors.New("the deadline had passed before the call was sent")

var errPending = fmt.Errorf("%w: %d calls of this process wait for answers (let some of them end before making more)", ErrOverloaded, calls.MaxCalls)

func expired(why string) error { return fmt.Errorf("%w: %s", context.DeadlineExceeded, why) }

// late returns the error of a call whose wait ended with err. why says what the call waited for. If
// the deadline has passed and a later deadline may help, late adds that remedy.
func late(err, why error) error {
	for _, waited := range []error{errNoHome, errNoAnswer, errBusy, ErrMoving, errOutOfReach, errPassed} {
		if errors.Is(why, waited) {
			return fmt.Errorf("%w: %w%s", err, why, moreTime(err))
		}
	}
	return fmt.Errorf("%w: %w", err, why)
}

// moreTime returns the remedy for a passed deadline, and "" if the caller gave up.
func moreTime(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return " (give it more time: shard.Timeout, or a later deadline)"
	}
	return ""
}

func waitError(ctx context.Context, why error) error { return late(ctx.Err(), why) }

func circular(chain string) error {
	return fmt.Errorf("%w: %s (make one of these calls a Tell, or make it after the turn)", ErrCircular, chain)
}

// NoContact returns the reason why a node runs no turns after it has lost contact with the cluster.
func NoContact(node string) string {
	return "node " + node + " has lost contact with the cluster and runs nothing (check its connection to NATS, and those of the other members)"
}

func noResult(why error) error {
	return fmt.Errorf("%w: %w (the method has run: correct the results that it returns)", ErrNoResult, why)
}

// notRun returns the error of a call whose result says that the call did not run, and nil for other
// results. buffered is Config.Limits.SingletonBuffer.
func notRun(kind string, res calls.Result, buffered int) error {
	switch res.Code {
	case wire.CodeOverloaded:
		if res.Text == "" {
			res.Text = "a mailbox or buffer at its home is full (retry later)"
		}
		return fmt.Errorf("%w: %s", ErrOverloaded, res.Text)
	case wire.CodeCircular:
		return circular(res.Text)
	case wire.CodeUnknownKind:
		if res.Text != "" {
			return fmt.Errorf("%w: %s (generate caller and host from one version)", ErrMismatch, res.Text)
		}
		return fmt.Errorf("%w: the home of the entity's shard does not know %s (start members that host it)", ErrNoHost, kind)
	case wire.CodeNoMethod:
		return fmt.Errorf("%w: %s has no method %s at its host, which runs an older or a newer program (deploy a new method to hosts before callers, and remove one from callers before hosts)", ErrNoMethod, kind, res.Text)
	case wire.CodeForbidden:
		return fmt.Errorf("%w: %s", ErrForbidden, res.Text)
	case wire.CodeBadArgs:
		return fmt.Errorf("%w: %s (generate caller and host from one version)", ErrBadArgs, res.Text)
	case wire.CodeActivation:
		return fmt.Errorf("%w: %s (the log of the entity's node has more)", ErrActivation, res.Text)
	case wire.CodeExpired:
		if res.Text == "" {
			return late(context.DeadlineExceeded, errBusy)
		}
		return fmt.Errorf("%w: %s", context.DeadlineExceeded, res.Text)
	case wire.CodeCanceled:
		return fmt.Errorf("%w: the caller gave up before the turn", context.Canceled)
	case calls.Unsent:
		return fmt.Errorf("%w: %s%s", ErrOverloaded, res.Text, slower)
	case wire.CodeRefused:
		return errors.New(res.Text)
	case wire.CodeReused:
		return fmt.Errorf("%w: %s", ErrCommandReused, res.Text)
	case wire.CodeCommitLarge:
		return fmt.Errorf("%w: %s", errLargeCommit, res.Text)
	case wire.CodeUnsendable:
		return fmt.Errorf("%w: %s%s", ErrTooLarge, res.Text, smaller)
	case calls.Shed:
		return fmt.Errorf("%w: at most %d calls wait for an instance (raise Config.Limits.SingletonBuffer?)", ErrBufferFull, buffered)
	}
	return nil
}

// NoMethod returns an error text for an unknown method: its name, and the type's methods.
func NoMethod(method string, has []string) string {
	return fmt.Sprintf("%s (it has %s)", bounded.Text(method), strings.Join(has, ", "))
}

// errLargeCommit is ErrTooLarge for a durable turn. Such a call certainly did not run: its command
// was not committed.
var errLargeCommit = fmt.Errorf("%w for a durable turn", ErrTooLarge)

const (
	smaller = " (send less at once, or raise max_payload of the NATS server)"
	slower  = " (slow down and retry, or raise Config.Limits.MaxBuffered)"
)

func unacknowledged(p *peers.Session) string {
	held, limit := p.Core.Account.Held()
	return fmt.Sprintf("%d bytes of answers wait for acknowledgements of client %s, and the limit is %d bytes (read answers faster, call less at once, or raise Config.Limits.MaxBuffered and Config.Limits.AnswerBytes of the members)",
		held, p.Peer().Name, limit)
}

// silence returns a text that says how long ago the peer last sent a message; "" if that is less
// than silenceTold. A silent peer may be reachable and have nothing to answer.
func silence(p *peers.Session, now time.Time) string {
	if d := p.Silence(now); d >= silenceTold {
		return fmt.Sprintf("; its last message came %v ago", d.Round(100*time.Millisecond))
	}
	return ""
}

const silenceTold = time.Second

func publicError(err error) error {
	switch {
	case errors.Is(err, stream.ErrTooLarge):
		return fmt.Errorf("%w: %w%s", ErrTooLarge, err, smaller)
	case errors.Is(err, stream.ErrFull):
		return &overload{err, slower}
	}
	return err
}

// overload is ErrOverloaded with a cause and a remedy. Its text is built lazily, because a refused
// caller may retry often.
type overload struct {
	cause error
	hint  string
}

func (e *overload) Error() string { return ErrOverloaded.Error() + ": " + e.cause.Error() + e.hint }

func (e *overload) Is(target error) bool { return target == ErrOverloaded }

// Unwrap returns the cause.
func (e *overload) Unwrap() error { return e.cause }

var errNoLease = errors.New("the singleton's lease is over (retry: its next instance takes the call)")

// errSingletonStays is the error of Passivate and Forget in a singleton or a pool. If these ended
// an instance, its tasks would run beside those of the next instance.
var errSingletonStays = errors.New("a singleton lives as long as its node may run it, and an instance of a pool as long as its shard has its home here (to start a singleton again, return an error from one of its tasks)")

type failure struct {
	method string
	err    error
	panics bool // the method panicked, or ended its goroutine
}

// outcome returns a text for people: whether the call ran and how it failed. It leaves out the
// error's text, which may contain arguments and state.
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

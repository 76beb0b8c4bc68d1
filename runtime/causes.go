package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/call"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// Causes of failed calls, and their remedies. All of it is
// worded when a call has failed: one that succeeds pays nothing for it.

// Causes of calls whose time was over, or that were given up.
var (
	errNoHome     = errors.New("its shard has no home yet")
	errNoAnswer   = errors.New("no answer")
	errBusy       = errors.New("the entity was busy")
	errMoving     = errors.New("its shard kept moving")
	errOutOfReach = errors.New("nothing of it arrived")
)

// errPending: the table of calls that wait for answers has no place left.
var errPending = fmt.Errorf("%w: %d calls of this process wait for answers (let some of them end before making more)", ErrOverloaded, pending.MaxCalls)

// expired is the cause of a call whose time ran out; it is
// context.DeadlineExceeded to errors.Is and says how the time was spent.
func expired(why string) error { return fmt.Errorf("%w: %s", context.DeadlineExceeded, why) }

// late is the cause of a call that err ended while it waited because of why. Causes that
// only time can mend say so.
func late(err, why error) error {
	for _, waited := range []error{errNoHome, errNoAnswer, errBusy, errMoving, errOutOfReach, errPassed} {
		if errors.Is(why, waited) {
			return fmt.Errorf("%w: %w%s", err, why, moreTime(err))
		}
	}
	return fmt.Errorf("%w: %w", err, why)
}

// moreTime is the remedy where time ran out, and nothing where the caller gave up.
func moreTime(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return " (give it more time: shard.Timeout, or a later deadline)"
	}
	return ""
}

// waitError is the cause of a wait that ctx ended.
func waitError(ctx context.Context, why error) error { return late(ctx.Err(), why) }

// circular is the cause of a call that came back to an entity that waits for it.
func circular(chain string) error {
	return fmt.Errorf("%w: %s (make one of these calls a Tell, or after the turn)", ErrCircular, chain)
}

// errClosed is ErrClosed of this process.
func (pl *plane) errClosed() error {
	if pl.self.Client {
		return fmt.Errorf("%w: connection %s has ended (Dial anew)", ErrClosed, pl.self.Name)
	}
	return fmt.Errorf("%w: node %s has ended (its Err tells why; make calls at another, or start a new one)", ErrClosed, pl.self.Name)
}

// errHolding is the cause of a call for which there is no room to wait for a home.
func (r *route) errHolding() error {
	pl, kind := r.kind.plane, r.kind.desc.Name
	return fmt.Errorf("%w: %d calls wait at %s already: shard %d of %s: %v (retry later, or raise Config.BufferSize)",
		ErrOverloaded, pl.cfg.BufferSize, pl.self.Name, r.shard, kind, r.waitsFor(time.Now()))
}

// errHoldingBytes is the cause of a call for which there is no room, by its bytes, to
// wait for a home.
func (r *route) errHoldingBytes(size int) error {
	pl := r.kind.plane
	return fmt.Errorf("%w: all calls that wait at %s may hold %d bytes, and %d more are too many: shard %d of %s has no home yet (retry later, send less at once, or raise Config.BufferBytes)",
		ErrOverloaded, pl.self.Name, pl.cfg.BufferBytes, size, r.shard, r.kind.desc.Name)
}

// errUnbuffered is the error of a tell when no tell may wait for the singleton.
func (r *route) errUnbuffered() error {
	return fmt.Errorf("%w: Config.SingletonBuffer lets no call wait at %s, and no instance of %s is known yet (retry later)",
		ErrBufferFull, r.kind.plane.self.Name, r.kind.desc.Name)
}

// noRoom is the bound that refused a call, for people: this process's caller, or one
// far away. Its text is made when somebody reads it.
type noRoom struct {
	shard *hostedShard
	bound region.Bound
	size  int // of the call
}

// noRoom is why the shard had no room for a call to wait.
func (s *hostedShard) noRoom(c *region.Call) *noRoom { return &noRoom{s, c.Full, c.Size} }

func (e *noRoom) Error() string {
	s, cfg := e.shard, &e.shard.plane().cfg
	bytes := func(whose string, limit int, setting string) string {
		return fmt.Sprintf("%s %s may hold %d bytes, and %d more are too many (retry later, send less at once, or raise %s)",
			whose, cfg.Name, limit, e.size, setting)
	}
	switch e.bound {
	case region.MailboxBytes:
		return bytes("its mailbox at", s.host.settings.bytes, "its MailboxBytes")
	case region.ShardBytes:
		return bytes(fmt.Sprintf("the calls that wait in its shard %v at", s.ID), cfg.ShardBytes, "Config.ShardBytes")
	case region.NodeBytes:
		return bytes("all calls that wait at", cfg.BufferBytes, "Config.BufferBytes")
	case region.ShardCalls:
		return fmt.Sprintf("its shard %v at %s is not open and holds %d calls (retry later, or raise Config.BufferSize)", s.ID, cfg.Name, cfg.BufferSize)
	case region.MailboxCalls:
	}
	return fmt.Sprintf("its mailbox at %s holds %d calls (retry later, or raise its Mailbox)", cfg.Name, s.host.settings.mailbox)
}

// noContact is why a node runs nothing although it has the entity.
func noContact(node string) string {
	return "node " + node + " has lost contact with the cluster and runs nothing (check its way to NATS, and that to the other members)"
}

// leaseError is the cause of a call whose turn might not begin here.
func (s *hostedShard) leaseError(err error) error {
	if errors.Is(err, ErrClosed) || errors.Is(err, errNoLease) {
		return err
	}
	return fmt.Errorf("%w: %s", err, noContact(s.plane().self.Name))
}

// resultError is the error for an answer that is no result.
func (p port) resultError(c *outCall, res pending.Result) error {
	kind := p.kind.desc.Name
	switch res.Code {
	case wire.CodeMethodError:
		return &EntityError{Kind: kind, ID: c.Ref.ID, Method: c.Method, Text: res.Text, causes: codegen.Causes(p.kind.errors(), res.Payload)}
	case wire.CodePanic:
		return &EntityError{Kind: kind, ID: c.Ref.ID, Method: c.Method, Text: res.Text, Panic: true}
	case wire.CodeTooLarge:
		return p.fail(c.Ref, c.Method, Executed, fmt.Errorf("%w: %s%s", ErrTooLarge, res.Text, smaller))
	case wire.CodeNoResult:
		return p.fail(c.Ref, c.Method, Executed, noResult(errors.New(res.Text)))
	case codeUnrepeatable:
		return p.fail(c.Ref, c.Method, Unknown, fmt.Errorf("%w: %s when it was to be sent again (it may have run: ask the entity before calling again)", ErrTooLarge, res.Text))
	case codeLost:
		if res.Text != "" {
			return p.fail(c.Ref, c.Method, Unknown, fmt.Errorf("%w: %v %s (it may have run: ask the entity before calling again)", ErrLost, res.Lost, res.Text))
		}
		return p.fail(c.Ref, c.Method, Unknown, fmt.Errorf("%w: %v (it may have run: ask the entity before calling again)", ErrLost, res.Lost))
	}
	if cause := p.notRun(res); cause != nil {
		return p.fail(c.Ref, c.Method, NotExecuted, cause)
	}
	return p.fail(c.Ref, c.Method, Unknown, fmt.Errorf("answer of unknown code %d (is the other side newer?)", res.Code))
}

// noResult is the cause of a call whose results do not encode.
func noResult(why error) error {
	return fmt.Errorf("%w: %w (the method has run: mend what it returns)", ErrNoResult, why)
}

// notRun is the cause of a call that was refused; nil for other answers.
func (p port) notRun(res pending.Result) error {
	kind := p.kind.desc.Name
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
			return fmt.Errorf("%w: %s (generate both from one version)", ErrMismatch, res.Text)
		}
		return fmt.Errorf("%w: the home of its shard does not know %s (start members that host it)", ErrNoHost, kind)
	case wire.CodeNoMethod:
		return fmt.Errorf("%w: %s has no %s where it lives (its host runs an older or a newer program: a new method goes to hosts before callers, a removed one leaves callers before hosts)", ErrNoMethod, kind, res.Text)
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
		return fmt.Errorf("%w: before its turn", context.Canceled)
	case codeUnsent:
		return fmt.Errorf("%w: %s%s", ErrOverloaded, res.Text, slower)
	case wire.CodeRefused:
		return errors.New(res.Text)
	case wire.CodeUnsendable:
		return fmt.Errorf("%w: %s%s", ErrTooLarge, res.Text, smaller)
	case codeShed:
		return fmt.Errorf("%w: at most %d calls wait for an instance (raise Config.SingletonBuffer?)", ErrBufferFull, *p.kind.plane.cfg.SingletonBuffer)
	}
	return nil
}

// Codes of this process's own, never on the wire.
const (
	codeLost         wire.Code = pending.Expired + 1 + iota // the node left without an answer
	codeUnsent                                              // it could not even be queued
	codeUnrepeatable                                        // it was sent, and is too large to be sent again
	codeClosed                                              // this process shuts down
	codeShed                                                // younger calls took its place in a full buffer
)

// whyDropped says why the outcome of calls that a client made before it was away is unknown.
const whyDropped = "dropped what it knew of this connection, which was away for too long"

// Remedies for refusals of the layers below.
const (
	smaller = " (send less at once, or raise max_payload of the NATS server)"
	slower  = " (slow down and retry, or raise Config.MaxBuffered)"
)

// publicError maps the causes of the layers below to this package's.
func publicError(err error) error {
	switch {
	case errors.Is(err, call.ErrTooLarge):
		return fmt.Errorf("%w: %w%s", ErrTooLarge, err, smaller)
	case errors.Is(err, call.ErrFull):
		return &overload{err, slower}
	}
	return err
}

// overload is ErrOverloaded with a cause and a remedy. Its text is made only when it is
// read, because a refused caller may try again very often.
type overload struct {
	cause error
	hint  string
}

func (e *overload) Error() string { return ErrOverloaded.Error() + ": " + e.cause.Error() + e.hint }

// Is tells that it is an ErrOverloaded.
func (e *overload) Is(target error) bool { return target == ErrOverloaded }

// Unwrap is the cause.
func (e *overload) Unwrap() error { return e.cause }

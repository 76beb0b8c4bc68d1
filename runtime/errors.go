package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/runtime/singleton"
)

// Causes of the errors that calls and nodes return. Test for them with errors.Is.
var (
	// ErrOverloaded means that a mailbox or a buffer is full; the text names the bound.
	// Nothing ran; slow down and retry.
	ErrOverloaded = node.ErrOverloaded
	// ErrCircular means that a chain of calls came back to an entity already waiting for an answer
	// in this chain. The call that closed the circle did not run.
	ErrCircular = node.ErrCircular
	// ErrNoHost means that no member hosts the entity's type, or the member named as the shard's
	// home in the table does not host the type.
	ErrNoHost = node.ErrNoHost
	// ErrNoMethod means that the host of the type does not know the method.
	ErrNoMethod = node.ErrNoMethod
	// ErrBadArgs means that the host could not decode the arguments.
	ErrBadArgs = node.ErrBadArgs
	// ErrActivation means that the factory, the decoding of the state or OnActivate
	// failed.
	ErrActivation = node.ErrActivation
	// ErrTooLarge means that the arguments (outcome NotExecuted) or the results (Executed) exceed
	// the broker's payload limit. The outcome is Unknown if the limit shrank after the arguments
	// had been sent. If a turn of a durable entity has results above this limit, or changes too
	// large for the store, nothing is changed and the outcome is NotExecuted.
	ErrTooLarge = node.ErrTooLarge
	// ErrNoResult means that the method ran, but its results cannot be encoded.
	ErrNoResult = node.ErrNoResult
	// ErrForbidden means that the caller has no right to send the call; the text names the
	// missing right. See docs/security.md.
	ErrForbidden = node.ErrForbidden
	// ErrBadID means that an entity id is not 1 to 1024 bytes long, is not accepted by the type's
	// shard function, or has wrong escapes in a request to a gateway.
	ErrBadID = node.ErrBadID
	// ErrCommandReused means that an earlier call of the entity used the same command id with
	// another method or other arguments: its key of [CommandID] is not unique. The call did not
	// run. If a turn is run again and makes another call than the first time, that call fails with
	// ErrCommandReused too.
	ErrCommandReused = node.ErrCommandReused
	// ErrAnswerForgotten means that a call with the same key of [CommandID] has run (outcome
	// Executed), but its answer is no longer kept. The call is not run a second time.
	ErrAnswerForgotten = node.ErrAnswerForgotten
	// ErrMismatch means that caller and host disagree about the type, for example
	// about its number of shards.
	ErrMismatch = node.ErrMismatch
	// ErrLost means that the called node left the cluster without answering, or the caller is a
	// client disconnected for over a minute and the node dropped the client's session.
	ErrLost = node.ErrLost
	// ErrClosed means that the node or connection was shut down.
	ErrClosed = node.ErrClosed
	// ErrDowned means that the other members declared this node down; it has
	// stopped itself.
	ErrDowned = errors.New("downed by the cluster")
	// ErrStarted means that a type was hosted after Start, or Start was called twice.
	ErrStarted = errors.New("already started")
	// ErrPanic means that the method panicked. Unless its supervisor decides otherwise, the entity
	// keeps its state; the panicked turn's changes are undone if the entity is durable. A
	// singleton's instance ends.
	ErrPanic = node.ErrPanic
)

// An Outcome says whether a call ran.
type Outcome int

// The outcomes of a call, numbered as in package calls.
const (
	// Unknown means that the call may have run, at most once.
	Unknown Outcome = iota
	// NotExecuted means that the method did not run and will not run, or the turn of a durable
	// entity was refused and changed nothing.
	NotExecuted
	// Executed means that the method ran to its end.
	Executed
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	switch o {
	case NotExecuted:
		return "not executed"
	case Executed:
		return "executed"
	}
	return "unknown"
}

// OutcomeOf reports whether the call that returned err ran. It ignores the outcomes of calls that
// the called method made. The outcome of nil is Executed. The outcome of an error that did not come
// from a call is Unknown.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Executed
	}
	var call *CallError
	if errors.As(err, &call) {
		return call.Outcome
	}
	var entity *EntityError
	if errors.As(err, &entity) {
		return Executed
	}
	return Unknown
}

// A CallError is the error of a call that did not return its method's own result.
type CallError struct {
	Kind, ID, Method string  // the method that was called
	Outcome          Outcome // whether it ran
	Err              error   // the cause; often one of this package's Err values
}

// Error returns the operation, its subject and the cause, separated by colons.
func (e *CallError) Error() string {
	outcome := e.Outcome.String()
	if e.Outcome == Unknown {
		outcome = "outcome unknown"
	}
	return fmt.Sprintf("call %s/%s.%s: %v (%s)", e.Kind, clip(e.ID), e.Method, e.Err, outcome)
}

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// An EntityError is an error that an entity's method returned, as the caller sees it in the same
// process or over the network. It has the text of the method's error. errors.Is and errors.As find
// the errors declared with //shard:error that the method's error wrapped. Of other errors only the
// text crosses the wire.
type EntityError struct {
	Kind, ID, Method string // the method that returned it
	Text             string // the method's error, or the value of its panic
	// Panic reports whether the method panicked. The log of the entity's node has the stack trace.
	// Repeated panics are logged at growing intervals.
	Panic bool

	causes []error
}

// Error returns the entity and the text of the method's error.
func (e *EntityError) Error() string {
	if e.Panic {
		return fmt.Sprintf("%s/%s.%s: panic: %s", e.Kind, clip(e.ID), e.Method, e.Text)
	}
	return fmt.Sprintf("%s/%s.%s: %s", e.Kind, clip(e.ID), e.Method, e.Text)
}

// Unwrap returns the errors declared with //shard:error that the method's error wrapped.
func (e *EntityError) Unwrap() []error { return e.causes }

// Is reports whether target is ErrPanic and the method panicked.
func (e *EntityError) Is(target error) bool { return e.Panic && target == ErrPanic }

// causes lists errors with their words for CauseOf. CauseOf takes the first error that matches.
var causes = []struct {
	err  error
	word string
}{
	{ErrPanic, "panic"},
	{ErrRefused, "refused"},
	{ErrOverloaded, "overloaded"},
	{ErrForbidden, "forbidden"},
	{ErrNoMethod, "no_method"},
	{ErrNoHost, "no_host"},
	{ErrNoInstance, "no_instance"},
	{ErrBufferFull, "buffer_full"},
	{ErrBadArgs, "bad_arguments"},
	{ErrBadID, "bad_id"},
	{ErrNoResult, "no_result"},
	{ErrTooLarge, "too_large"},
	{ErrCommandReused, "command_reused"},
	{ErrAnswerForgotten, "answer_forgotten"},
	{ErrCircular, "circular"},
	{ErrActivation, "activation"},
	{ErrMismatch, "mismatch"},
	{ErrLost, "lost"},
	{ErrDowned, "downed"},
	{ErrClosed, "closed"},
	{context.DeadlineExceeded, "deadline"},
	{context.Canceled, "canceled"},
}

// CauseOf returns the cause of a call's error as one word of a small fixed set, for counts:
// "entity" for an error that the method itself returned, otherwise "overloaded", "deadline", "lost"
// and so on, and "_OTHER" for any other cause, such as [TryAgain]. err is not nil.
func CauseOf(err error) string {
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.word
		}
	}
	var own *EntityError
	var call *CallError
	if !errors.As(err, &own) && errors.As(err, &call) {
		return "_OTHER"
	}
	return "entity"
}

func newCallError(f node.CallFailure) error {
	if f.Err == nil {
		return &EntityError{Kind: f.Kind, ID: f.ID, Method: f.Method, Text: f.Text, Panic: f.Panic, causes: f.Causes}
	}
	return &CallError{Kind: f.Kind, ID: f.ID, Method: f.Method, Outcome: Outcome(f.Outcome), Err: f.Err}
}

func readCallError(err error) (f node.CallFailure, ok bool) {
	var call *CallError
	if errors.As(err, &call) {
		return node.CallFailure{Kind: call.Kind, ID: call.ID, Method: call.Method, Outcome: calls.Outcome(call.Outcome), Err: call.Err}, true
	}
	var entity *EntityError
	if errors.As(err, &entity) {
		return node.CallFailure{
			Kind: entity.Kind, ID: entity.ID, Method: entity.Method, Outcome: calls.Executed,
			Text: entity.Text, Panic: entity.Panic, Causes: entity.causes,
		}, true
	}
	return node.CallFailure{}, false
}

func clip(s string) string { return bounded.ID(s) }

// Causes of errors about singletons; test with errors.Is.
var (
	// ErrNoInstance is singleton.ErrNoInstance: no instance was found in time. Nothing ran.
	ErrNoInstance = singleton.ErrNoInstance
	// ErrBufferFull means that more than Config.Limits.SingletonBuffer calls waited at this process for a
	// singleton's instance, and this call was the oldest. Nothing ran.
	ErrBufferFull = node.ErrBufferFull
	// ErrNotSingleton is singleton.ErrNotSingleton: the function or option is only for singletons.
	ErrNotSingleton = singleton.ErrNotSingleton
)

package calls

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/wire"
)

// An Outcome says whether a call that has ended was executed.
type Outcome uint8

// The outcomes of a call.
const (
	Unknown     Outcome = iota // it may have run, at most once
	NotExecuted                // it did not run and will not
	Executed                   // it ran and returned
)

// String returns the name of the outcome.
func (o Outcome) String() string { return [...]string{"unknown", "not executed", "executed"}[o] }

// Codes that end an attempt inside the caller's process. They are never sent.
const (
	Unsent       wire.Code = Lost + 1 + iota // it could not be appended to a session
	Unrepeatable                             // it was sent, and is too large to be sent again
	Closed                                   // the process is shutting down
	Shed                                     // it was dropped from a full buffer to make room for younger calls
	Denied                                   // the broker does not let this process connect, or publish to the home of the call's shard
	TurnedAway                               // the home of the call's shard keeps no session with this process
)

// A Step is what a caller does after an attempt of a call.
type Step uint8

// The steps after an attempt of a call.
const (
	Return    Step = iota // return the Outcome to the caller
	SendAgain             // send the call again after Pause; if the call's time ends before that, the outcome is NotExecuted
	Withdraw              // the call's time is over: withdraw the call, and get the outcome from Withdrawn
)

// A Command records, at the caller, the attempts of a call to a durable entity. The entity applies
// the command at most once, however often the caller sends it.
type Command struct {
	Unsure bool // an earlier attempt may have run
}

// NextStep returns the caller's next step after an attempt that ended with the given code. With the
// step Return, it also returns the call's outcome. c is the call's command, or nil if the entity is
// not durable.
func NextStep(code wire.Code, c *Command) (Step, Outcome) {
	switch code {
	case Expired, Closed:
		return Withdraw, Unknown
	case wire.CodeMoved, wire.CodeDropped, wire.CodeStopped:
		return SendAgain, NotExecuted
	case Lost, wire.CodeInDoubt:
		if c != nil {
			c.Unsure = true
			return SendAgain, NotExecuted
		}
		return Return, Unknown
	case wire.CodeOverloaded:
		if c != nil && c.Unsure {
			return SendAgain, NotExecuted
		}
		return Return, NotExecuted
	case wire.CodeCircular, wire.CodeUnknownKind, wire.CodeNoMethod, wire.CodeForbidden, wire.CodeBadArgs, wire.CodeActivation,
		wire.CodeExpired, wire.CodeCanceled, wire.CodeRefused, wire.CodeCommitLarge, wire.CodeUnsendable, wire.CodeIntercepted,
		wire.CodeReused, Unsent, Shed:
		return Return, NotExecuted
	}
	if code.Executed() {
		return Return, Executed
	}
	return Return, Unknown // Unrepeatable, Denied, TurnedAway, and codes of later releases
}

// Pause returns how long to wait after an attempt. try is the number of that attempt, from 0 on.
// The pause grows from 1 ms to 50 ms.
func Pause(try int) time.Duration {
	return min(time.Millisecond<<min(try, 6), 50*time.Millisecond)
}

// A Withdrawal says how far a call had come when its caller gave up.
type Withdrawal uint8

// The stages of a call at which its caller can give up.
const (
	WithdrawnUnsent      Withdrawal = iota // it waited for a home
	WithdrawnQueued                        // it waited for its turn at this process
	WithdrawnUndelivered                   // it was sent, and certainly did not arrive
	WithdrawnBegun                         // its turn at this process had begun, or was over
	WithdrawnDelivered                     // it was sent, and may have arrived
)

// Withdrawn returns the outcome of a withdrawn call. how is the stage at which the caller gave up.
func Withdrawn(how Withdrawal) Outcome {
	if how >= WithdrawnBegun {
		return Unknown
	}
	return NotExecuted
}

// Final returns the outcome of a command whose last attempt had the outcome last. If an earlier
// attempt may have run, NotExecuted becomes Unknown, unless settled is set. settled means that the
// refusal of the last attempt proves that no attempt was applied.
func (c *Command) Final(last Outcome, settled bool) Outcome {
	if c.Unsure && last == NotExecuted && !settled {
		return Unknown
	}
	return last
}

// A Local is what a caller does next if the entity's shard is at the caller's process.
type Local uint8

// The next steps of a local caller.
const (
	Run    Local = iota // run the method on the caller's goroutine: the turn has begun
	Wait                // wait for the turn
	Encode              // encode and send the call: the shard is leaving, or lets no call wait while it moves
	Refuse              // fail the call, which was NotExecuted
)

// NextLocally returns what a local caller does after the shard has decided about its call.
func NextLocally(v region.Verdict) Local {
	switch v {
	case region.Run:
		return Run
	case region.Queued:
		return Wait
	case region.Moved, region.Forward, region.Shed:
		return Encode
	}
	return Refuse
}

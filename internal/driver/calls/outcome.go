package calls

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/wire"
)

// An Outcome reports whether a call that has ended ran.
type Outcome uint8

// The outcomes.
const (
	Unknown     Outcome = iota // it may have run, at most once
	NotExecuted                // it did not run and will not
	Executed                   // it ran to its end
)

// String names the outcome.
func (o Outcome) String() string { return [...]string{"unknown", "not executed", "executed"}[o] }

// Codes that only the caller's process uses, never on the wire.
const (
	Unsent       wire.Code = Lost + 1 + iota // it could not even be queued
	Unrepeatable                             // it was sent, and is too large to be sent again
	Closed                                   // the process shuts down
	Shed                                     // it was dropped from a full buffer for younger calls
	Denied                                   // the broker refuses the subject of its home
	TurnedAway                               // its home keeps no session with this process
)

// A Step is the next step of a caller.
type Step uint8

// The steps.
const (
	Return    Step = iota // tell the caller the Outcome
	SendAgain             // after Pause, if the call's time lasts that long; else it was NotExecuted
	Withdraw              // the call's time is over: take it back, then Withdrawn has the outcome
)

// A Command is the record of a call's attempts at the caller of a durable entity. The entity
// carries a command out once, however often it is sent.
type Command struct {
	Unsure bool // an attempt may have run
}

// NextStep interprets the answer to an attempt. c is the call's command; nil for an
// entity that is not durable.
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

// Pause is the pause behind the attempt of that number, counted from 0, before the next one.
func Pause(try int) time.Duration {
	return min(time.Millisecond<<min(try, 6), 50*time.Millisecond)
}

// A Withdrawal is how far a call had come when its caller gave it up.
type Withdrawal uint8

// The Withdrawals.
const (
	WithdrawnUnsent      Withdrawal = iota // it waited for a home
	WithdrawnQueued                        // it waited for its turn at this process
	WithdrawnUndelivered                   // it was sent, and certainly did not arrive
	WithdrawnBegun                         // its turn at this process had begun, or was over
	WithdrawnDelivered                     // it was sent, and may have arrived
)

// Withdrawn is the outcome of a call that was withdrawn.
func Withdrawn(how Withdrawal) Outcome {
	if how >= WithdrawnBegun {
		return Unknown
	}
	return NotExecuted
}

// Final returns the outcome of a call from its last attempt's: if an earlier attempt may have run,
// a last one not run proves nothing. settled reports whether the refusal of the last attempt proves
// that no attempt was applied.
func (c *Command) Final(last Outcome, settled bool) Outcome {
	if c.Unsure && last == NotExecuted && !settled {
		return Unknown
	}
	return last
}

// A Local is the next step of a caller whose entity's shard is at its process.
type Local uint8

// The ways to go on.
const (
	Run    Local = iota // the turn has begun, on the caller's goroutine
	Wait                // for the turn
	Encode              // the shard is leaving, or does not let the call wait while it moves: send the call
	Refuse              // NotExecuted
)

// NextLocally decides how a local caller goes on after the shard's verdict.
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

package shard

import (
	"time"

	"github.com/shardgen/shardgen/internal/driver/node"
)

// ErrEscalated is the error of a node that a supervisor ended because of an entity's error.
var ErrEscalated = node.ErrEscalated

// Supervise sets the function that decides what an entity does after a failed turn. The argument
// err of decide is the error that the method returned, unchanged. After a panic or runtime.Goexit,
// err is an [*EntityError] with Panic set, for which errors.Is(err, ErrPanic) holds. After a failed
// activation, err is [ErrActivation] with its cause. The caller gets its answer whatever decide
// returns. Many goroutines may call decide at once; if decide panics, the entity resumes. By
// default every entity resumes, because the state in its memory has no other copy. Members may set
// different functions.
func Supervise(decide func(err error) SupervisorAction) HostOption {
	return func(s *hostSettings) {
		s.Decide = nil
		if decide != nil {
			s.Decide = func(err error) node.Action { return node.Action(decide(err)) }
		}
	}
}

// RestartBackoff sets how long an entity that [Supervise] restarts waits for its next turn: the
// time first, doubled by each further failure up to the time longest. After 2*longest without a
// failure it begins with first again. A move of the shard does not wait for this time. Default
// 100ms to 10s, minimum 0. Members may differ.
func RestartBackoff(first, longest time.Duration) HostOption {
	return func(s *hostSettings) { s.Backoff, s.BackoffMost = first, longest }
}

// A SupervisorAction is the decision of a supervisor about an entity whose turn failed.
type SupervisorAction int

// The actions of a supervisor, numbered as in package node.
const (
	// ActionResume keeps the entity as it is.
	ActionResume SupervisorAction = iota
	// ActionRestart replaces the entity by a new value from the factory, without its state. Calls
	// wait for the back-off (see [RestartBackoff]).
	ActionRestart
	// ActionStop ends the entity as [Forget] does, including its stop hook. The next call begins a
	// new entity. A remembered entity is also activated again, without a call, after
	// RememberOptions.Backoff.
	ActionStop
	// ActionEscalate ends the node at once, without leaving; Node.Err returns [ErrEscalated] and
	// the cause. Use it for errors after which the process as a whole cannot be trusted.
	ActionEscalate
)

// String returns the name of the action.
func (a SupervisorAction) String() string {
	return node.Action(a).String()
}

package shard

// A SupervisorAction is the decision of a supervisor about an entity whose turn failed.
type SupervisorAction int

// The actions of a supervisor.
const (
	// ActionResume keeps the entity as it is.
	ActionResume SupervisorAction = iota
	// ActionRestart replaces the entity by a fresh one, as the factory makes it, without its
	// state. Calls wait for the back-off (see [RestartBackoff]).
	ActionRestart
	// ActionStop ends the entity as [Forget] does, including its stop hook. The next call
	// begins a new one. A remembered entity also begins anew after RememberOptions.Backoff.
	ActionStop
	// ActionEscalate ends the node at once, without leaving; Node.Err returns [ErrEscalated] and
	// the cause. Use it for errors after which the process as a whole cannot be trusted.
	ActionEscalate
)

// String returns the name of the action.
func (a SupervisorAction) String() string {
	switch a {
	case ActionResume:
		return "resume"
	case ActionRestart:
		return "restart"
	case ActionStop:
		return "stop"
	case ActionEscalate:
		return "escalate"
	}
	return "unknown"
}

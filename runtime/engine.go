package shard

import (
	"context"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/calls"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/remembering"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// config configures the driver of a process. Package shard documents the fields, and has set
// their defaults.
type config struct {
	Cluster, Name                    string
	Lanes                            int
	CallTimeout, HandoffTimeout      time.Duration
	BufferSize                       int
	ShardBytes, BufferBytes          int
	Window, MaxBuffered, AnswerBytes int
	SingletonBuffer                  int
	Store                            store.Backend // nil: none
	DirectListen, DirectAdvertise    string
	DirectDial                       bool
	Interceptors                     []interceptor
	Logger                           *slog.Logger

	// CallError makes the error of a call, and ReadCallError is its inverse: it finds such an
	// error in the tree of err.
	CallError     func(callFailure) error
	ReadCallError func(err error) (callFailure, bool)
}

// directEnabled reports whether the process may have direct lanes.
func (c *config) directEnabled() bool { return c.DirectDial || c.DirectListen != "" }

// runnerBytes is how many bytes of tells may wait at each of that many runners; as much
// again is being run.
func (c *config) runnerBytes(runners int) int { return c.BufferBytes / (2 * runners) }

// A callFailure describes the error of a call.
type callFailure struct {
	Kind, ID, Method string // the method that was called
	Outcome          calls.Outcome
	Err              error   // the cause; nil if the method itself returned an error or panicked
	Text             string  // of the method's error or panic
	Panic            bool    // the method panicked
	Causes           []error // declared errors that the method's error held
}

// A callerClass is the class of process that a call came from.
type callerClass int

// The classes of callers.
const (
	classMember callerClass = iota + 1
	classClient
	classGateway
)

// String returns the name of the class.
func (c callerClass) String() string {
	if c < classMember || c > classGateway {
		return "unknown"
	}
	return [...]string{"member", "client", "gateway"}[c-classMember]
}

// A caller is the caller of a call.
type caller struct {
	Class       callerClass
	Name        string
	Incarnation uint64
	Kind, ID    string // of the entity whose turn made the call; empty if no turn did
}

// String returns the class and the name, and the entity if there is one.
func (c caller) String() string {
	s := c.Class.String() + " " + c.Name
	if c.Kind != "" {
		s += " for " + c.Kind + "/" + clip(c.ID)
	}
	return s
}

// A callInfo describes a call to its method and to interceptors, beside its arguments.
type callInfo struct {
	From             caller
	Kind, ID, Method string
	Tell             bool
	Arrived          time.Time // zero for interceptors of the caller
	Headers          []wire.Header
}

// An interceptor is called around calls. next makes the call.
type interceptor func(ctx context.Context, call callInfo, next func(context.Context) error) error

// An action is the decision about an entity whose turn failed.
type action int

// The actions.
const (
	actionResume   action = iota // it stays as it is
	actionRestart                // it is replaced by a fresh one after a back-off
	actionStop                   // it ends as if forgotten
	actionEscalate               // its node ends
)

// String returns the name of the action.
func (a action) String() string {
	if a < actionResume || a > actionEscalate {
		return "unknown"
	}
	return [...]string{"resume", "restart", "stop", "escalate"}[a]
}

// settings are the settings of a hosted type.
type settings struct {
	idle        time.Duration // 0: entities do not become idle
	inline      bool          // local calls may run on their callers' goroutines
	mailbox     int           // bound of one mailbox, in calls
	bytes       int           // bound of one mailbox, in bytes
	handoff     region.Handoff
	maxActive   int // 0: no limit
	stopTimeout time.Duration
	intercept   []interceptor
	remembering *remembering.Settings // nil: entities are not remembered
	decide      func(error) action    // nil: resume
	backoff     time.Duration
	backoffMost time.Duration
}

// tells is how many tells of this process may wait in a turn of tells.
func (s *settings) tells() int { return min(s.mailbox, s.bytes/region.TellBytes) }

// tellBound is the bound from which the result of tells follows.
func (s *settings) tellBound() region.Bound {
	if s.tells() < s.mailbox {
		return region.MailboxBytes
	}
	return region.MailboxCalls
}

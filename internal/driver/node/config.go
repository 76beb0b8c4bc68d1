package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/remembering"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// Config configures the driver of a process. Package shard documents the fields and sets their
// defaults.
type Config struct {
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
	Interceptors                     []Interceptor
	Capacity                         float64 // processors; 0: as many as the system gives the process
	Zone                             string
	Tracing                          Tracing // nil: no call is traced
	Logger                           *slog.Logger

	// CallError makes the public error of a call. ReadCallError finds such an error in the tree of
	// err.
	CallError     func(CallFailure) error
	ReadCallError func(err error) (CallFailure, bool)
	// Cause names the cause of an error in one word, for counts.
	Cause func(err error) string
}

func (c *Config) directEnabled() bool { return c.DirectDial || c.DirectListen != "" }

// RunnerBytes returns how many bytes of tells may wait at each runner, if the process has so many
// runners. The batch of tells that a runner is running may have as many bytes again.
func (c *Config) RunnerBytes(runners int) int { return c.BufferBytes / (2 * runners) }

// A CallFailure describes the error of a call.
type CallFailure struct {
	Kind, ID, Method string // the method that was called
	Outcome          calls.Outcome
	Err              error   // the cause; nil if the method itself returned an error or panicked
	Text             string  // the text of the method's error or panic
	Panic            bool    // the method panicked
	Causes           []error // the declared errors in the tree of the method's error
}

// A CallerClass is the class of a call's caller.
type CallerClass int

const (
	classMember CallerClass = iota + 1
	classClient
	classGateway
)

// String returns the name of the class.
func (c CallerClass) String() string {
	if c < classMember || c > classGateway {
		return "unknown"
	}
	return [...]string{"member", "client", "gateway"}[c-classMember]
}

// A Caller identifies the process, and perhaps the entity, that has made a call.
type Caller struct {
	Class       CallerClass
	Name        string
	Incarnation uint64
	Kind, ID    string // the entity whose turn made the call; empty if the call was made outside turns
}

// String returns the class and the name, and the entity if a turn made the call.
func (c Caller) String() string {
	s := c.Class.String() + " " + c.Name
	if c.Kind != "" {
		s += " for " + c.Kind + "/" + clip(c.ID)
	}
	return s
}

// A CallInfo describes a call, without its arguments, to its method and to interceptors.
type CallInfo struct {
	From             Caller
	Kind, ID, Method string
	Tell             bool
	Arrived          time.Time // zero for interceptors of the caller
	Headers          []wire.Header
}

// An Interceptor runs around a call: it calls next to make the call, or returns an error to refuse
// it.
type Interceptor func(ctx context.Context, call CallInfo, next func(context.Context) error) error

// An Action is a supervisor's decision about an entity whose turn failed.
type Action int

const (
	actionResume   Action = iota // the entity stays as it is
	actionRestart                // the entity is dropped, and activated again after a back-off
	actionStop                   // the entity ends as if forgotten
	actionEscalate               // the entity's node ends
)

// String returns the name of the action.
func (a Action) String() string {
	if a < actionResume || a > actionEscalate {
		return "unknown"
	}
	return [...]string{"resume", "restart", "stop", "escalate"}[a]
}

// Settings are the settings with which a node hosts one type.
type Settings struct {
	Idle         time.Duration // 0: entities are not passivated for being idle
	Inline       bool          // local calls may run on their callers' goroutines
	MailboxCalls int           // bound of one mailbox, in calls
	MailboxBytes int           // bound of one mailbox, in bytes
	Handoff      region.Handoff
	MaxActive    int // 0: no limit
	StopTimeout  time.Duration
	Intercept    []Interceptor
	Remembering  *remembering.Settings // nil: entities are not remembered
	Decide       func(error) Action    // nil: resume
	Backoff      time.Duration
	BackoffMost  time.Duration
}

func (s *Settings) tells() int { return min(s.MailboxCalls, s.MailboxBytes/region.TellBytes) }

func (s *Settings) tellBound() region.Bound {
	if s.tells() < s.MailboxCalls {
		return region.MailboxBytes
	}
	return region.MailboxCalls
}

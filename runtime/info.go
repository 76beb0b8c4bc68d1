package shard

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/wire"
)

// Info describes a call without its arguments. The called method gets it from [CallInfo], and an
// [Interceptor] as an argument. An Info never changes, and is safe for concurrent use.
type Info struct {
	// From is the immediate caller. If an entity makes the call in its turn, From names that entity
	// and its member; it does not name the entity's own caller. To pass on the origin of a chain of
	// calls, use headers.
	From Identity
	// Kind, ID and Method identify the called entity and its method. For a page of a list, Method
	// is "!list" and ID is "", because the call is to a shard. For a call that sets a reminder,
	// Method is the reminder's. For calls that cancel, list or retry reminders it is "!unschedule",
	// "!scheduled" or "!retry".
	Kind, ID, Method string
	// Tell reports whether the call is a tell, whose caller does not wait for an answer.
	Tell bool
	// Arrived is when the call reached the process that hosts the entity. From then on it waited
	// for its turn, and for its shard to open. It is set for interceptors of the host only, and
	// zero elsewhere.
	Arrived time.Time

	headers []wire.Header
}

func infoOf(c node.CallInfo) Info {
	from := Identity{Class: Class(c.From.Class), Name: c.From.Name, Incarnation: c.From.Incarnation, Kind: c.From.Kind, ID: c.From.ID}
	return Info{From: from, Kind: c.Kind, ID: c.ID, Method: c.Method, Tell: c.Tell, Arrived: c.Arrived, headers: c.Headers}
}

// Header returns the value of a header that the caller has set with [WithHeader], or in its request
// to a gateway, and "" if there is none. Case does not matter in key.
func (i Info) Header(key string) string {
	for _, h := range i.headers {
		if h.Key == key {
			return h.Value
		}
	}
	if lower := strings.ToLower(key); lower != key {
		return i.Header(lower)
	}
	return ""
}

// Headers yields the keys, in lower case, and the values of all headers of the call.
func (i Info) Headers() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, h := range i.headers {
			if !yield(h.Key, h.Value) {
				return
			}
		}
	}
}

// A Class is the kind of process that a call came from.
type Class int

// The classes of callers, numbered as in package node.
const (
	// ClassMember is a member of the cluster. An entity that calls another entity has this class.
	ClassMember Class = iota + 1
	// ClassClient is a process with a [Conn].
	ClassClient
	// ClassGateway is a program in any language that called through a member with Config.Gateway.
	ClassGateway
)

// String returns the name of the class.
func (c Class) String() string { return node.CallerClass(c).String() }

// An Identity names the caller of a call. It comes from the transport: the broker's permissions
// decide which names a process may use (docs/security.md), and no argument or header changes it. On
// a broker without permissions any process may use any name.
type Identity struct {
	Class Class
	// Name is Config.Name of the member or client, or the name in the request's subject for a
	// caller of the gateway.
	Name string
	// Incarnation distinguishes processes of one name. It is 0 for callers of the gateway.
	Incarnation uint64
	// Kind and ID name the entity whose turn made the call. They are empty for tells, and for calls
	// that no turn made, so for all calls of clients and of the gateway.
	Kind, ID string
}

// String returns the class and the name, and the calling entity if there is one.
func (i Identity) String() string {
	return node.Caller{Class: node.CallerClass(i.Class), Name: i.Name, Kind: i.Kind, ID: i.ID}.String()
}

// An Interceptor is called around each call that a process makes (Config.Interceptors), or around
// each turn of a hosted type ([Intercept]). To let the call go on, the interceptor calls next,
// once, on the same goroutine, with ctx or a context derived from ctx. To refuse the call, it
// returns an error without calling next. It must be safe for concurrent use.
//
// The caller of a refused call gets a [CallError] with the outcome NotExecuted, for which
// errors.Is(err, ErrRefused) holds. If the caller's interceptor refused, the CallError wraps that
// interceptor's error. If the host's interceptor refused, the CallError has the text of the error,
// and wraps only errors that are declared with //shard:error. The sender of a tell gets no error if
// the host refuses the tell; the host counts the tell as "refused".
//
// next returns the call's error when the call has ended. At the sender of a tell, next returns when
// the tell is sent. Once next has been called, the error that the interceptor returns has no
// effect.
type Interceptor func(ctx context.Context, call Info, next func(context.Context) error) error

// ErrRefused means that an [Interceptor] refused the call. Nothing ran.
var ErrRefused = node.ErrRefused

func engineInterceptors(all []Interceptor) []node.Interceptor {
	var in []node.Interceptor
	for _, user := range all {
		in = append(in, func(ctx context.Context, call node.CallInfo, next func(context.Context) error) error {
			return user(ctx, infoOf(call), next)
		})
	}
	return in
}

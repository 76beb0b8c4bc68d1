package shard

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/wire"
)

// Info describes a call to its method and to an [Interceptor], beside its arguments. It is a value
// that does not change, and is safe for concurrent use.
type Info struct {
	// From is the immediate caller. If an entity makes calls in its turn, From is that entity at
	// its member, and not the caller of the entity: the origin of a chain of calls travels in
	// headers, if the entity passes them on.
	From Identity
	// Kind, ID and Method are those of the entity that is called.
	Kind, ID, Method string
	// Tell reports whether the call is a tell, whose caller does not wait for an answer.
	Tell bool
	// Arrived is when the call came to the process that hosts the entity. From then on it waited
	// for its turn, also while its shard was not open. Only interceptors of the host get it; it is
	// zero for others.
	Arrived time.Time

	headers []wire.Header
}

// infoOf returns the engine's description of a call.
func infoOf(c node.CallInfo) Info {
	from := Identity{Class: Class(c.From.Class), Name: c.From.Name, Incarnation: c.From.Incarnation, Kind: c.From.Kind, ID: c.From.ID}
	return Info{From: from, Kind: c.Kind, ID: c.ID, Method: c.Method, Tell: c.Tell, Arrived: c.Arrived, headers: c.Headers}
}

// Header returns a header that the caller has set with [WithHeader], or as a header of its request
// to a gateway. It is "" if the caller has not set it. Upper and lower case of keys are the same.
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

// The classes of callers, as the engine numbers them.
const (
	// ClassMember is a member of the cluster, and so each entity that calls another one.
	ClassMember Class = iota + 1
	// ClassClient is a process with a [Conn].
	ClassClient
	// ClassGateway is a caller in any language that called through a member with Config.Gateway.
	ClassGateway
)

// String returns the name of the class.
func (c Class) String() string { return node.CallerClass(c).String() }

// An Identity names the caller of a call. It comes from the transport: the broker's permissions decide
// which names a process may use (docs/security.md), and no argument or header changes it. On a
// broker without permissions each process may use each name.
type Identity struct {
	Class Class
	// Name is Config.Name of the member or client, or the name in the subject of a caller of the
	// gateway.
	Name string
	// Incarnation tells processes of one name apart. It is 0 for callers of the gateway.
	Incarnation uint64
	// Kind and ID are the entity whose turn made the call. They are empty if no turn did, and
	// for tells. Of a client and of a caller of the gateway they are always empty.
	Kind, ID string
}

// String returns the class and the name, and the entity if there is one.
func (i Identity) String() string {
	return node.Caller{Class: node.CallerClass(i.Class), Name: i.Name, Kind: i.Kind, ID: i.ID}.String()
}

// An Interceptor is called around calls: around those a process makes (Config.Interceptors), or
// around the turns of a hosted type ([Intercept]). It goes on with the call by next, and refuses it
// by returning an error without next. It must be safe for concurrent use.
//
// The caller of a refused call gets a [CallError] with the outcome NotExecuted, for which
// errors.Is(err, ErrRefused) holds. At the caller it wraps the interceptor's error. From a host it
// has that error's text, and its errors declared with //shard:error. Nobody hears of a refused
// tell, which is counted as "refused" at the host.
//
// Next returns when the call has ended, and at the caller of a tell once it is sent. It returns the
// call's error. The interceptor's own result has no effect then: a call ends as its entity, or the
// runtime, has ended it. Next is called once, on the same goroutine, with ctx or a context
// derived from it.
type Interceptor func(ctx context.Context, call Info, next func(context.Context) error) error

// ErrRefused means that an [Interceptor] refused the call. Nothing ran.
var ErrRefused = node.ErrRefused

// engineInterceptors returns the interceptors as the engine calls them.
func engineInterceptors(all []Interceptor) []node.Interceptor {
	var in []node.Interceptor
	for _, user := range all {
		in = append(in, func(ctx context.Context, call node.CallInfo, next func(context.Context) error) error {
			return user(ctx, infoOf(call), next)
		})
	}
	return in
}

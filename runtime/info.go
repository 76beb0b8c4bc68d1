package shard

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A Class is the kind of process that a call came from.
type Class int

// The classes of callers.
const (
	// ClassMember is a member of the cluster, and so each entity that calls another one.
	ClassMember Class = iota + 1
	// ClassClient is a process with a [Conn].
	ClassClient
	// ClassGateway is a caller in any language that called through a member with Config.Gateway.
	ClassGateway
)

// String returns the name of the class.
func (c Class) String() string {
	switch c {
	case ClassMember:
		return "member"
	case ClassClient:
		return "client"
	case ClassGateway:
		return "gateway"
	}
	return "unknown"
}

// An Identity names the caller of a call. It comes from the transport: the broker's permissions decide
// which names a process may use (docs/security.md), and no argument or header changes it. On a
// broker without permissions each process may use each name.
type Identity struct {
	Class Class
	// Name is that of the member or of the client, Config.Name, or the name that a caller of the
	// gateway has in its subject.
	Name string
	// Incarnation tells processes of one name apart. It is 0 for callers of the gateway.
	Incarnation uint64
	// Kind and ID are the entity whose turn made the call. They are empty if no turn did, and
	// for tells. Of a client and of a caller of the gateway they are always empty.
	Kind, ID string
}

// String returns the class and the name, and the entity if there is one.
func (i Identity) String() string {
	s := i.Class.String() + " " + i.Name
	if i.Kind != "" {
		s += " for " + i.Kind + "/" + clip(i.ID)
	}
	return s
}

// Info describes a call to its method and to an [Interceptor], beside its arguments. It is a value
// that does not change, and is safe for concurrent use.
type Info struct {
	// From is the immediate caller. If an entity makes calls in its turn, From is that entity at
	// its member, and not the caller of the entity: the origin of a chain of calls travels in
	// headers, if the entity passes them on.
	From Identity
	// Kind, ID and Method are those of the entity that is called.
	Kind, ID, Method string
	// Tell: the caller does not wait for an answer.
	Tell bool
	// Arrived is when the call came to the process that hosts the entity. From then on it waited
	// for its turn, also while its shard was not open. It is zero where no interceptor of the
	// host asks.
	Arrived time.Time

	headers []wire.Header
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

// WithHeader returns a context whose calls and tells carry the header, beside those that ctx
// already has; a header of the same key is replaced. Headers are for data that concerns many
// methods, such as a trace or a tenant. The called method gets them from [CallInfo]. They are not passed on
// to calls that it makes: it does that itself, with WithHeader.
//
// A key has 1 to 64 of A-Z a-z 0-9 _ -, in any case, and is sent in lower case; a value is any
// string. A call carries at most 32 headers, and their keys and values have at most 4,096 bytes
// together; WithHeader fails beyond that. Headers prove nothing about the caller: a client may
// set each to any value.
func WithHeader(ctx context.Context, key, value string) (context.Context, error) {
	info := wire.Info{}
	if o := outgoingOf(ctx); o != nil {
		info = o.info
	}
	key = strings.ToLower(key)
	info.Headers = slices.DeleteFunc(slices.Clone(info.Headers), func(h wire.Header) bool { return h.Key == key })
	info.Headers = append(info.Headers, wire.Header{Key: key, Value: value})
	if err := info.Check(); err != nil {
		return ctx, fmt.Errorf("header %s: %w", clip(key), err)
	}
	return withOutgoing(ctx, info), nil
}

// outgoing describes the calls of a context, beside their arguments. It does not change.
type outgoing struct {
	info    wire.Info
	encoded []byte
}

type outgoingKey struct{}

// outgoingOf returns the description of the calls of ctx; nil means there is none. A turn's context
// has nothing of its caller's.
func outgoingOf(ctx context.Context) *outgoing {
	o, _ := ctx.Value(outgoingKey{}).(*outgoing)
	return o
}

func withOutgoing(ctx context.Context, info wire.Info) context.Context {
	return context.WithValue(ctx, outgoingKey{}, &outgoing{info, info.Append(nil)})
}

package shard

import (
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

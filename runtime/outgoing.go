package shard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/wire"
)

// WithHeader returns a context whose calls and tells carry the header in addition to those of ctx. A header
// of the same key is replaced. Headers are for data that concerns many methods, such as a trace or a
// tenant. The called method gets them from [CallInfo]. A method's own calls do not carry them, unless it
// passes them on with WithHeader.
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

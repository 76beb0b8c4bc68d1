package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/wire"
)

// WithHeader returns a context whose calls carry the header, beside those that ctx has.
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
	return WithOutgoing(ctx, info), nil
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

func WithOutgoing(ctx context.Context, info wire.Info) context.Context {
	return context.WithValue(ctx, outgoingKey{}, &outgoing{info, info.Append(nil)})
}

package direct

import (
	"context"
	"net"
)

// A Dialer makes TCP connections.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

type dialerKey struct{}

// WithDialer returns a context for starting a process that dials with d instead of the system's
// Dialer. It is for programs that act as several hosts, such as internal/e2e/netns.
func WithDialer(ctx context.Context, d Dialer) context.Context {
	return context.WithValue(ctx, dialerKey{}, d)
}

// DialerOf returns the Dialer set by WithDialer, or the system's.
func DialerOf(ctx context.Context) Dialer {
	if d, ok := ctx.Value(dialerKey{}).(Dialer); ok {
		return d
	}
	return new(net.Dialer)
}

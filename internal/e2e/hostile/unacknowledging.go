package hostile

import (
	"context"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// Unacknowledging is a transport of clients that acknowledge none of the frames that members send to them,
// and are ordinary clients otherwise.
func Unacknowledging(t transport.Transport) transport.Transport { return unacknowledging{t} }

type unacknowledging struct{ transport.Transport }

// Open opens the link.
func (u unacknowledging) Open(ctx context.Context, o transport.Options) (transport.Link, error) {
	l, err := u.Transport.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return unacknowledgingLink{l}, nil
}

type unacknowledgingLink struct{ transport.Link }

// Send sends a frame without its acknowledgement.
func (l unacknowledgingLink) Send(ch transport.Channel, to transport.Peer, token uint64, payload []byte) error {
	if ch == transport.Control {
		return l.Link.Send(ch, to, token, payload)
	}
	var r wire.FrameReader
	h, rest, err := r.Header(payload)
	if err != nil {
		return err
	}
	h.Ack, h.Handled = 0, 0
	return l.Link.Send(ch, to, token, append(wire.AppendFrameHeader(nil, &h), rest...))
}

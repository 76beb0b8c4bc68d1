package stream

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/wire"
)

// An Oversize is an envelope that was appended while the broker accepted larger messages than now.
// The peer gets a small envelope in its place, unless the peer has received the original already.
type Oversize struct {
	Envelope wire.Envelope // its slices point into a frame that does not change any more
	// NotExecuted reports that the envelope certainly never reached the peer. Otherwise that is
	// unknown.
	NotExecuted bool
	Size, Limit int // in bytes
}

// Error returns the text of ErrTooLarge with the envelope's size and the limit.
func (o *Oversize) Error() string {
	return fmt.Sprintf("%v: %d bytes, at most %d", ErrTooLarge, o.Size, o.Limit)
}

func (q *frames) divide(f *frame) (parts []frame, out []Oversize) {
	before := q.held
	defer func() { q.account.add(q.held - before) }()
	q.held -= len(f.body())
	if f.refuses > 0 {
		q.refusals--
	}
	most := min(FrameBytes, q.maxPayload)
	rest := f.body()
	for seq := f.first; seq <= f.last(); seq++ {
		var e wire.Envelope
		at := rest
		rest, _, _ = wire.NextEnvelope(rest, &e) // this side has encoded it
		encoded := at[:len(at)-len(rest)]
		if room := q.maxPayload - wire.MaxFrameHeader; len(encoded) > room {
			o := Oversize{Envelope: e, Size: len(encoded), Limit: room, NotExecuted: f.neverArrived() && seq > q.handledTo}
			if seq > q.handledTo {
				out = append(out, o)
			}
			small := o.instead()
			encoded = wire.AppendEnvelope(nil, &small)
		}
		if n := len(parts); n == 0 || len(parts[n-1].buf)+len(encoded) > most {
			parts = append(parts, frame{
				first: seq, sends: f.sends, bounces: f.bounces, bounced: f.bounced, closed: true, buf: newBuffer(most),
			})
		}
		part := &parts[len(parts)-1]
		part.buf = append(reserve(part.buf, len(encoded)), encoded...)
		part.count++
		q.held += len(encoded)
		if e.Type == wire.TypeRefusal {
			q.noteRefusal(part, &e)
		}
	}
	return parts, out
}

func (o *Oversize) instead() wire.Envelope {
	e := &o.Envelope
	switch {
	case e.Type != wire.TypeAnswer:
		return wire.Envelope{}
	case e.Code == wire.CodeOK:
		text := fmt.Sprintf("%d bytes of results, at most %d", o.Size, o.Limit)
		return wire.Envelope{Type: e.Type, ID: e.ID, Code: wire.CodeTooLarge, Text: []byte(text)}
	}
	// The kind of error stays, and the beginning of its text.
	return wire.Envelope{Type: e.Type, ID: e.ID, Code: e.Code, Text: e.Text[:min(len(e.Text), o.Limit/2)]}
}

func (q *frames) voidState(init *wire.Envelope) {
	for i := q.sendAt; i < len(q.list); i++ {
		rest := q.list[i].body()
		for len(rest) > 0 {
			var e wire.Envelope
			at := rest
			rest, _, _ = wire.NextEnvelope(rest, &e)
			if e.Type == wire.TypeInit && e.Shard == init.Shard && e.Epoch == init.Epoch && string(e.Kind) == string(init.Kind) {
				wire.VoidEnvelope(at[:len(at)-len(rest)])
			}
		}
	}
}

package call

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/wire"
)

// An Oversize is an envelope that was appended when the broker took larger messages than
// it does now. The peer gets something small in its place, if it has not got it before.
type Oversize struct {
	Envelope wire.Envelope // of a frame that nobody changes any more
	// NotExecuted: it certainly never reached the peer. Otherwise nobody knows.
	NotExecuted bool
	Size, Limit int // in bytes
}

// Error reads like that of Append: it is ErrTooLarge, with both sizes.
func (o *Oversize) Error() string {
	return fmt.Sprintf("%v: %d bytes, at most %d", ErrTooLarge, o.Size, o.Limit)
}

// SetLimit sets how large the payloads of frames to come may be, in bytes.
func (p *Path) SetLimit(bytes int) { p.cfg.MaxPayload = bytes }

// Shrink takes back a Take whose frame is larger than limit, which is what the broker
// takes now. Frames that are not sent yet, or are to be sent again, are divided so that
// they fit. Sequences stay as they are, so that a peer that has got some of them before
// passes over those. Envelopes that do not fit alone are taken out and returned: in the
// place of results stands the answer that they are too large, and nothing in that of
// others. With a part of a shard's state go the others that wait, the last one with
// them, for the new home must not take what it has got for the whole.
func (p *Path) Shrink(token uint64, limit int) (out []Oversize) {
	defer p.check()
	p.lent = 0
	p.cfg.MaxPayload = limit
	first, _ := sendingOf(token)
	for i := p.head; i < p.sendAt; i++ {
		if p.frames[i].first == first {
			p.frames[i].sends--
			p.rewindTo(i)
			break
		}
	}
	for i := p.sendAt; i < len(p.frames); i++ {
		if len(p.frames[i].buf) <= limit {
			continue
		}
		parts, over := p.divide(&p.frames[i])
		p.frames = slices.Replace(p.frames, i, i+1, parts...)
		i += len(parts) - 1
		out = append(out, over...)
	}
	for i := range out {
		if out[i].Envelope.Type == wire.TypeInit {
			p.voidState(&out[i].Envelope)
		}
	}
	p.release() // the peer may have handled a part
	return out
}

// divide makes frames of one that fit, and returns what does not fit alone.
func (p *Path) divide(f *frame) (parts []frame, out []Oversize) {
	p.held -= len(f.body())
	if f.refuses > 0 {
		p.refusals--
	}
	most := min(frameBytes, p.cfg.MaxPayload)
	rest := f.body()
	for seq := f.first; seq <= f.last(); seq++ {
		var e wire.Envelope
		at := rest
		rest, _, _ = wire.NextEnvelope(rest, &e) // this side has encoded it
		encoded := at[:len(at)-len(rest)]
		if room := p.cfg.MaxPayload - wire.MaxFrameHeader; len(encoded) > room {
			o := Oversize{Envelope: e, Size: len(encoded), Limit: room, NotExecuted: f.neverArrived() && seq > p.handledTo}
			if seq > p.handledTo {
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
		p.held += len(encoded)
		p.noteRefusal(part, &e)
	}
	return parts, out
}

// instead is what stands in the envelope's place.
func (o *Oversize) instead() wire.Envelope {
	e := &o.Envelope
	switch {
	case e.Type != wire.TypeReply:
		return wire.Envelope{}
	case e.Code == wire.CodeOK:
		text := fmt.Sprintf("%d bytes of results, at most %d", o.Size, o.Limit)
		return wire.Envelope{Type: e.Type, ID: e.ID, Code: wire.CodeTooLarge, Text: []byte(text)}
	}
	// What the error was stays, and the beginning of what it says.
	return wire.Envelope{Type: e.Type, ID: e.ID, Code: e.Code, Text: e.Text[:min(len(e.Text), o.Limit/2)]}
}

// voidState takes the parts of the shard's state out that are to be sent still.
func (p *Path) voidState(init *wire.Envelope) {
	for i := p.sendAt; i < len(p.frames); i++ {
		rest := p.frames[i].body()
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

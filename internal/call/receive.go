package call

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// Receive takes the header of a frame from the peer and returns how many of its
// envelopes, from the front, are known already; the others must be handled now,
// in order. ok is false when the whole frame must be ignored, its
// acknowledgement too: something before it is missing, or it is old, or of a session
// that was dropped.
//
// After a frame with ok the driver handles the envelopes and then calls Ack.
func (p *Session) Receive(h *wire.FrameHeader, now time.Time) (skip uint32, ok bool) {
	defer p.check()
	last := h.Seq + uint64(h.Count) - 1 // h.Seq-1 for a frame without envelopes
	switch {
	case h.Seq == 0 || last+1 < h.Seq:
		return 0, false // foreign: sequences start at 1 and do not wrap
	case !p.belongs(h, now):
		return 0, false
	case h.Seq > p.received+1:
		if now.Sub(p.nackedAt) >= nackGap || p.nackedAt.IsZero() {
			p.nack, p.ackNow, p.nackedAt = true, true, now
		}
		return 0, false
	case h.Count > 0 && last <= p.received:
		p.ackNow = true // the acknowledgement was lost
		return h.Count, true
	}
	if h.Count > 0 {
		skip = uint32(p.received + 1 - h.Seq)
		p.received = last
		if p.ackDueAt.IsZero() {
			p.ackDueAt = now.Add(AckDelay)
		}
	}
	if h.Flags&wire.FlagAckNow != 0 {
		p.ackNow = true
	}
	return skip, true
}

// Unreached reports whether the peer never heard of the session: it sent nothing, and
// every frame that was published to it bounced.
func (p *Session) Unreached() bool {
	if p.received > 0 || p.handledTo > 0 {
		return false
	}
	for i := p.head; i < len(p.frames); i++ {
		if !p.frames[i].neverArrived() {
			return false
		}
	}
	return true
}

// Received returns the highest sequence received without a gap.
func (p *Session) Received() uint64 { return p.received }

// AckOwed ends a frame of that many bytes, all handled with ack. It makes the next Take
// send an acknowledgement, and returns true, if the frames since the last one fill a
// quarter of the window, because the peer may soon have to wait for it.
func (p *Session) AckOwed(ack uint64, bytes int) bool {
	if p.unsaid += bytes; p.unsaid >= p.cfg.Window/4 && ack > p.ackSent {
		p.ackNow = true
	}
	return p.ackNow
}

// AckSoon makes the next Take send an acknowledgement.
func (p *Session) AckSoon() { p.ackNow = true }

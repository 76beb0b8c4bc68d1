package peers

import (
	"sync/atomic"
	"time"
)

// A DirectLane is a TCP connection to the peer of a session, which carries its frames
// instead of the broker. Its methods must not block, and are safe for concurrent use.
type DirectLane interface {
	// Send sends a frame, which it does not keep. After an error the direct lane carries
	// nothing any more, but the frame may have arrived.
	Send(frame []byte) error
	// HasEnded reports whether the direct lane carries nothing any more.
	HasEnded() bool
	// Stalled is called when the peer has acknowledged nothing for stream.RetryAfter.
	Stalled()
}

// wantEvery is how often at most a session without a direct lane asks for one.
const wantEvery = 250 * time.Millisecond

// A path is the way of a session's frames: a direct lane while there is one, and
// otherwise the broker.
type path struct {
	lane   atomic.Pointer[DirectLane]
	wanted atomic.Int64 // when a direct lane was last asked for, in nanoseconds after the Set's base
}

// direct returns the direct lane; nil if the broker has the frames.
func (p *path) direct() DirectLane {
	if c := p.lane.Load(); c != nil {
		return *c
	}
	return nil
}

// use makes c the way of later frames, unless there is another that has not ended.
// It reports whether that changed anything.
func (p *path) use(c DirectLane) bool {
	at := p.lane.Load()
	if at != nil && (*at == c || !(*at).HasEnded()) {
		return false
	}
	return p.lane.CompareAndSwap(at, &c)
}

// leave has the broker carry later frames, if c does now. It reports whether that changed
// anything.
func (p *path) leave(c DirectLane) bool {
	at := p.lane.Load()
	return at != nil && *at == c && p.lane.CompareAndSwap(at, nil)
}

// mayAsk reports whether a direct lane may be asked for now.
func (p *path) mayAsk(now int64) bool {
	last := p.wanted.Load()
	return (last == 0 || now-last >= int64(wantEvery)) && p.wanted.CompareAndSwap(last, now)
}

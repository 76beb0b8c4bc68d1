package peers

import (
	"sync/atomic"
	"time"
)

// A DirectLane is a TCP connection that carries a session's frames to its peer instead of the
// broker. Its methods must not block, and are safe for concurrent use.
type DirectLane interface {
	// Send sends a frame, and does not keep it. After an error the direct lane carries nothing more,
	// but the frame may have arrived.
	Send(frame []byte) error
	// HasEnded reports whether the direct lane has ended, so that it carries nothing more.
	HasEnded() bool
	// Stalled is called when the peer has acknowledged nothing for stream.RetryAfter.
	Stalled()
}

const wantEvery = 250 * time.Millisecond

// A path carries a session's frames: a direct lane, or otherwise the broker.
type path struct {
	lane   atomic.Pointer[DirectLane]
	wanted atomic.Int64 // when the session last asked for a direct lane, in nanoseconds after the Set's base
}

func (p *path) direct() DirectLane {
	if c := p.lane.Load(); c != nil {
		return *c
	}
	return nil
}

// use makes the direct lane c carry the frames from now on. It does nothing if another direct lane
// carries frames and has not ended. It reports whether the path changed.
func (p *path) use(c DirectLane) bool {
	at := p.lane.Load()
	if at != nil && (*at == c || !(*at).HasEnded()) {
		return false
	}
	return p.lane.CompareAndSwap(at, &c)
}

// leave makes the broker carry the frames from now on, if the direct lane c has carried them until
// now. It reports whether the path changed.
func (p *path) leave(c DirectLane) bool {
	at := p.lane.Load()
	return at != nil && *at == c && p.lane.CompareAndSwap(at, nil)
}

func (p *path) mayAsk(now int64) bool {
	last := p.wanted.Load()
	return (last == 0 || now-last >= int64(wantEvery)) && p.wanted.CompareAndSwap(last, now)
}

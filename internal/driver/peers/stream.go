package peers

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/routing"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// ErrGone is the error of sending to a departed peer.
var ErrGone = errors.New("the peer is gone")

// A StreamEnv is what a Stream needs of its process. The methods must not block or call the Stream.
// The Stream calls them with its lock held, unless a method's comment says otherwise.
type StreamEnv interface {
	Now() time.Time
	// Send sends a frame to the peer. It is called without the lock. An error means that the frame
	// was not sent.
	Send(token uint64, frame []byte) error
	// Repack adapts envelopes to the broker's payload limit, after the broker refused a frame because
	// it was too large. It reports false if sending the frame again would not help.
	Repack(token uint64, size int, err error) bool
	// MayAnswer reports whether answers, and envelopes after them, may be sent.
	MayAnswer() bool
	// MaxPayload returns the size of the largest message that the broker takes, in bytes.
	MaxPayload() int
	// WakeAfter makes the process call Tick after d. A call of Tick that an earlier WakeAfter has set
	// does not happen.
	WakeAfter(d time.Duration)
	// Yield lets other goroutines append. It is called without the lock.
	Yield()
	// Ignored is called without the lock for a frame that is not handled. bye means that the frame is
	// the goodbye of a client that never used the session.
	Ignored(bye bool)
}

// A Stream drives one end of a session, the stream.Session in Core: it guards Core with a lock,
// publishes Core's frames on one goroutine at a time, and ticks it. A Stream is safe for concurrent
// use. Lock guards Core and the methods named …Locked.
type Stream struct {
	Core *stream.Session
	// Handled is the sequence number up to which the peer's envelopes were handled, for
	// acknowledgements. Only one goroutine at a time raises it.
	Handled atomic.Uint64

	env      StreamEnv
	peer     transport.Peer
	bye      atomic.Bool
	mu       sync.Mutex
	idle     sync.Cond        // signalled when writing becomes false
	writing  bool             // a goroutine is publishing; others only append
	departed bool             // the peer has departed, so nothing more is appended
	heard    time.Time        // when the peer last sent anything
	absent   time.Time        // since when all frames have bounced; zero: they do not bounce
	stopped  []*routing.Route // routes that wait for the peer's acknowledgements
	wakeAt   time.Time        // when Tick is to be called; zero means never
}

// Init begins a session with a peer. It is called once, before any other method.
func (s *Stream) Init(env StreamEnv, cfg stream.Config, peer transport.Peer) {
	s.env, s.peer, s.Core = env, peer, stream.NewSession(cfg, peer)
	s.idle.L = &s.mu
}

// Peer returns the process at the other end.
func (s *Stream) Peer() transport.Peer { return s.peer }

// Lock locks the stream for appending.
func (s *Stream) Lock() { s.mu.Lock() }

// Unlock undoes Lock.
func (s *Stream) Unlock() { s.mu.Unlock() }

// DepartedLocked reports whether the peer has departed.
func (s *Stream) DepartedLocked() bool { return s.departed }

// WritingLocked reports whether a goroutine is publishing. If so, that goroutine also publishes
// envelopes that are appended now.
func (s *Stream) WritingLocked() bool { return s.writing }

// AckedLocked returns the highest sequence number that the peer has acknowledged.
func (s *Stream) AckedLocked() uint64 { return s.Core.Acked() }

// UnackedLocked returns how many of the envelopes numbered up to last the peer has not
// acknowledged.
func (s *Stream) UnackedLocked(last uint64) int {
	if acked := s.Core.Acked(); acked < last {
		return int(last - acked)
	}
	return 0
}

// AbsentPatience is how long a leaving process waits for a peer's acknowledgements while the broker
// returns every frame.
const AbsentPatience = time.Second

// Unacknowledged returns a function, for use during a wait. The function reports whether a
// reachable peer has not yet acknowledged an envelope that was appended before the call of
// Unacknowledged.
func Unacknowledged(streams []*Stream, now func() time.Time) func() bool {
	last := make([]uint64, len(streams))
	for i, s := range streams {
		s.mu.Lock()
		last[i] = s.Core.Next() - 1
		s.mu.Unlock()
	}
	return func() bool {
		for i, s := range streams {
			if s.owed(last[i], now()) > 0 {
				return true
			}
		}
		return false
	}
}

// Owed returns how many envelopes the peer has not acknowledged; 0 if it cannot be reached.
func (s *Stream) Owed(now time.Time) int { return s.owed(math.MaxUint64, now) }

func (s *Stream) owed(last uint64, now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.departed || !s.absent.IsZero() && now.Sub(s.absent) >= AbsentPatience {
		return 0
	}
	return s.UnackedLocked(min(last, s.Core.Next()-1))
}

// UsedLocked reports whether any envelope was sent or received.
func (s *Stream) UsedLocked() bool { return s.Core.Next() > 1 || s.Core.Received() > 0 }

// HeardLocked returns when the peer last sent anything; zero means never.
func (s *Stream) HeardLocked() time.Time { return s.heard }

// AwaitLocked makes the stream call r.Acked at the next acknowledgement.
func (s *Stream) AwaitLocked(r *routing.Route) {
	if !slices.Contains(s.stopped, r) {
		s.stopped = append(s.stopped, r)
	}
}

// HasDeparted reports whether the peer has departed.
func (s *Stream) HasDeparted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.departed
}

// SaidGoodbye reports whether the peer has departed with a goodbye.
func (s *Stream) SaidGoodbye() bool { return s.bye.Load() }

// smallEnvelope is a size in bytes that every broker accepts.
const smallEnvelope = 4 << 10

// AppendLocked appends an envelope and returns its sequence number. It does not publish the
// envelope. The error is ErrGone if the peer has departed, or otherwise one of package stream.
func (s *Stream) AppendLocked(e *wire.Envelope) (uint64, error) {
	if s.departed {
		return 0, ErrGone
	}
	if e.SizeBound() > smallEnvelope {
		s.Core.SetLimit(s.env.MaxPayload())
	}
	return s.Core.Append(e)
}

// Append appends an envelope and returns its sequence number.
func (s *Stream) Append(e *wire.Envelope) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.AppendLocked(e)
}

// AppendAll appends envelopes without others between them. It stops at the first error.
func (s *Stream) AppendAll(parts []*wire.Envelope) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range parts {
		if _, err := s.AppendLocked(e); err != nil {
			return err
		}
	}
	return nil
}

// Flush publishes appended envelopes. If another goroutine is publishing, it leaves that to the
// other goroutine.
func (s *Stream) Flush() {
	s.mu.Lock()
	if !s.writing {
		s.PublishLocked(false)
	}
	s.mu.Unlock()
}

// PublishLocked publishes the appended envelopes. If gather is set, it first lets other goroutines
// append envelopes, which it then publishes too. The caller has the lock, and no other goroutine is
// publishing. The lock is released while frames are sent.
func (s *Stream) PublishLocked(gather bool) {
	s.writing = true
	if gather {
		s.gatherLocked()
	}
	s.writeLocked(gather)
	s.wroteLocked()
	s.armLocked()
}

func (s *Stream) wroteLocked() {
	s.writing = false
	s.idle.Broadcast()
}

const maxYields = 8

// gatherLocked lets other goroutines append envelopes, until none of them does or the frame is
// full.
func (s *Stream) gatherLocked() {
	for range maxYields {
		before := s.Core.Next()
		if s.Core.Full() {
			return
		}
		s.mu.Unlock()
		s.env.Yield()
		s.mu.Lock()
		if s.Core.Next() == before {
			return
		}
	}
}

func (s *Stream) writeLocked(gather bool) {
	for first := true; ; first = false {
		if gather && !first {
			s.gatherLocked()
		}
		now, take := s.env.Now(), s.Core.Take
		if !s.env.MayAnswer() {
			take = s.Core.TakeAck // an answer must not leave, nor calls appended after it
		}
		frame, token, ok := take(now, s.Handled.Load())
		if !ok {
			return
		}
		s.mu.Unlock()
		err := s.env.Send(token, frame)
		s.mu.Lock()
		if err == nil || s.env.Repack(token, len(frame), err) {
			continue
		}
		s.Core.Unsent(token, now)
		return
	}
}

const leaseLook = 20 * time.Millisecond

// armLocked arranges the next Tick.
func (s *Stream) armLocked() {
	now := s.env.Now()
	wake := s.Core.Tick(now)
	if soon := now.Add(leaseLook); s.UnackedLocked(s.Core.Next()-1) > 0 && !s.env.MayAnswer() && (wake.IsZero() || wake.After(soon)) {
		wake = soon
	}
	if wake.IsZero() || s.departed || !s.wakeAt.IsZero() && !s.wakeAt.After(wake) {
		return
	}
	s.wakeAt = wake
	s.env.WakeAfter(max(wake.Sub(now), time.Millisecond))
}

// Tick does the work for which WakeAfter was called.
func (s *Stream) Tick() {
	s.mu.Lock()
	s.wakeAt = time.Time{}
	departed := s.departed
	s.Core.Tick(s.env.Now())
	s.mu.Unlock()
	if !departed {
		s.Flush()
	}
}

// Rewind sends unacknowledged envelopes again, because the connection is back, or because another
// connection now carries the session.
func (s *Stream) Rewind() {
	s.mu.Lock()
	s.Core.Rewind()
	s.mu.Unlock()
	s.Flush()
}

// Bounced records that the broker has returned the frame with the given token, because nobody
// received it. It returns for how long all frames have been returned.
func (s *Stream) Bounced(token uint64) time.Duration {
	now := s.env.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Core.Bounced(token, now)
	s.armLocked()
	if s.absent.IsZero() {
		s.absent = now
	}
	return now.Sub(s.absent)
}

// Unreached reports whether no frame ever reached the peer, and the broker returns frames. Such a
// peer does not know the session, and sends no goodbye.
func (s *Stream) Unreached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Core.Unreached() && !s.absent.IsZero() && !s.departed
}

// AwaitsBounce reports whether the broker may still return a frame, which would prove that the peer
// did not receive some envelopes.
func (s *Stream) AwaitsBounce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Core.AwaitsBounce()
}

// Receive handles a frame's header. skip is the number of the frame's first envelopes that were
// handled before. dropped means that the peer has dropped this session: the caller must make a new
// session and pass the frame to it. If ok and dropped are false, the caller must ignore the frame.
func (s *Stream) Receive(h *wire.FrameHeader, at time.Time) (skip uint32, dropped, ok bool) {
	s.mu.Lock()
	s.heard = at
	skip, ok = s.Core.Receive(h, at)
	if !ok {
		dropped = s.Core.Dropped() && !s.departed
		bye := !dropped && s.Core.Goodbye(h)
		s.mu.Unlock()
		if !dropped {
			s.env.Ignored(bye)
		}
		if !dropped && !bye {
			s.Flush() // perhaps with a request to send again, or with the session's number
		}
		return 0, dropped, false
	}
	s.armLocked()
	s.mu.Unlock()
	return skip, false, true
}

// Received is called when the envelopes of a frame of size bytes have been handled. It applies the
// acknowledgement in the frame's header, and reports whether something can be published now.
func (s *Stream) Received(h *wire.FrameHeader, size int) (more bool) {
	s.mu.Lock()
	s.absent = time.Time{}
	progress := s.Core.Ack(h, s.env.Now())
	owed := s.Core.AckOwed(s.Handled.Load(), size)
	more = progress && s.Core.Unpublished() || owed || h.Flags&wire.FlagNack != 0
	if !more {
		s.armLocked() // an acknowledgement may be due again
	}
	var stopped []*routing.Route
	var acked uint64
	if progress && len(s.stopped) > 0 {
		stopped, s.stopped = s.stopped, nil
		acked = s.Core.Acked()
	}
	s.mu.Unlock()
	for _, r := range stopped {
		r.Acked(s.peer.Address, acked)
	}
	return more
}

// AckSoon acknowledges handled envelopes after a short delay.
func (s *Stream) AckSoon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Core.AckSoon()
}

// Find returns the envelope with the sequence number seq. It reports false if the peer has
// acknowledged that envelope, or if no envelope has the number.
func (s *Stream) Find(seq uint64) (wire.Envelope, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Core.Find(seq)
}

// Void withdraws an envelope that certainly did not arrive. It reports false if the envelope may
// have arrived.
func (s *Stream) Void(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Core.Void(seq)
}

// Dropped reports whether the peer has dropped its state of the session.
func (s *Stream) Dropped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Core.Dropped()
}

// Close ends the session. It returns the unacknowledged envelopes, and the routes that wait for
// acknowledgements. bye means that the peer has said goodbye.
func (s *Stream) Close(bye bool) (left []stream.Unacknowledged, stopped []*routing.Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.departed {
		return nil, nil
	}
	s.departed = true
	s.bye.Store(bye)
	stopped, s.stopped = s.stopped, nil
	return s.Core.TakeUnacknowledged(bye), stopped
}

// Goodbye publishes the remaining envelopes, and a last frame with a goodbye. On a session that was
// never used it does nothing.
func (s *Stream) Goodbye() {
	s.mu.Lock()
	for s.writing {
		s.idle.Wait()
	}
	defer s.mu.Unlock()
	if s.departed || !s.UsedLocked() {
		return
	}
	s.writing = true
	s.Core.LiftWindow() // late envelopes get no acknowledgement any more
	s.writeLocked(false)
	frame := s.Core.Bye(s.Handled.Load())
	s.mu.Unlock()
	_ = s.env.Send(0, frame)
	s.mu.Lock()
	s.wroteLocked()
}

// Part sends a goodbye to a peer that has probably ended. A peer that is alive after all then
// forgets the session, and the next frame of this process begins a new one. Part does not send the
// envelopes that are not sent yet, so their calls certainly do not run.
func (s *Stream) Part() {
	s.mu.Lock()
	if s.departed || !s.UsedLocked() {
		s.mu.Unlock()
		return
	}
	frame := s.Core.Bye(s.Handled.Load())
	s.mu.Unlock()
	_ = s.env.Send(0, frame)
}

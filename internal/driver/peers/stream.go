package peers

import (
	"errors"
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

// A StreamEnv is the process that a Stream is in. Unless it says otherwise a method is called
// with the stream's lock held, and must not block or call the stream.
type StreamEnv interface {
	Now() time.Time
	// Send hands a frame to the broker, without the lock. An error says that it did not go.
	Send(token uint64, frame []byte) error
	// Repack has frames that the broker refused for their size made anew. It reports false if that
	// does not help.
	Repack(token uint64, size int, err error) bool
	// MayAnswer reports whether answers may leave, and envelopes behind them.
	MayAnswer() bool
	// MaxPayload is the largest message that the broker takes, in bytes.
	MaxPayload() int
	// WakeAfter has Tick called after d, in place of the time that an earlier WakeAfter set.
	WakeAfter(d time.Duration)
	// Yield lets other goroutines append, without the lock.
	Yield()
	// Ignored is called without the lock for an unhandled frame; bye: it is the last one of a
	// client without unhandled calls.
	Ignored(bye bool)
}

// A Stream drives one end of a stream.Session: it has its lock, publishes its frames one goroutine
// at a time, and wakes it. It is safe for concurrent use. Core is guarded by
// Lock, as are the methods named …Locked.
type Stream struct {
	Core *stream.Session
	// Handled is the highest sequence number from the peer whose envelope was handled:
	// acknowledgements say so. Only one goroutine at a time raises it.
	Handled atomic.Uint64

	env      StreamEnv
	peer     transport.Peer
	bye      atomic.Bool
	mu       sync.Mutex
	idle     sync.Cond        // writing has ended
	writing  bool             // somebody publishes; others only append
	departed bool             // the peer has departed: nothing more is appended
	heard    time.Time        // when the peer last sent anything
	absent   time.Time        // since when everything has bounced; zero means it does not
	stopped  []*routing.Route // routes that wait for the peer's acknowledgement
	wakeAt   time.Time        // when Tick is to be called; zero means not at all
}

// Init begins a session with a peer. It is called once, before anything else.
func (s *Stream) Init(env StreamEnv, cfg stream.Config, peer transport.Peer) {
	s.env, s.peer, s.Core = env, peer, stream.NewSession(cfg, peer)
	s.idle.L = &s.mu
}

// Peer is the process at the other end.
func (s *Stream) Peer() transport.Peer { return s.peer }

// Lock guards appending.
func (s *Stream) Lock() { s.mu.Lock() }

// Unlock ends Lock.
func (s *Stream) Unlock() { s.mu.Unlock() }

// DepartedLocked reports whether the peer has departed.
func (s *Stream) DepartedLocked() bool { return s.departed }

// WritingLocked reports whether a goroutine is publishing, which will also publish envelopes appended now.
func (s *Stream) WritingLocked() bool { return s.writing }

// AckedLocked is the highest sequence number that the peer has acknowledged.
func (s *Stream) AckedLocked() uint64 { return s.Core.Acked() }

// UnackedLocked is how many envelopes up to that sequence number the peer has not
// acknowledged.
func (s *Stream) UnackedLocked(last uint64) int {
	if acked := s.Core.Acked(); acked < last {
		return int(last - acked)
	}
	return 0
}

// UsedLocked reports whether anything went out or came in.
func (s *Stream) UsedLocked() bool { return s.Core.Next() > 1 || s.Core.Received() > 0 }

// AbsentLocked is since when everything has bounced; zero means it does not.
func (s *Stream) AbsentLocked() time.Time { return s.absent }

// HeardLocked is when the peer last sent anything; zero means never.
func (s *Stream) HeardLocked() time.Time { return s.heard }

// AwaitLocked has the route told of the peer's acknowledgements.
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

// SaidGoodbye reports whether the peer has departed with a goodbye of its own.
func (s *Stream) SaidGoodbye() bool { return s.bye.Load() }

// smallEnvelope is a size in bytes that fits any broker: the limit is not looked up for smaller
// envelopes.
const smallEnvelope = 4 << 10

// AppendLocked adds an envelope, which the next publishing takes along. The error is
// ErrGone or one of package stream.
func (s *Stream) AppendLocked(e *wire.Envelope) (uint64, error) {
	if s.departed {
		return 0, ErrGone
	}
	if e.SizeBound() > smallEnvelope {
		s.Core.SetLimit(s.env.MaxPayload())
	}
	return s.Core.Append(e)
}

// Append adds one envelope.
func (s *Stream) Append(e *wire.Envelope) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.AppendLocked(e)
}

// AppendAll adds envelopes with nothing between them. It ends at the first error.
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

// Flush publishes appended envelopes, unless another goroutine is publishing.
func (s *Stream) Flush() {
	s.mu.Lock()
	if !s.writing {
		s.PublishLocked(false)
	}
	s.mu.Unlock()
}

// PublishLocked publishes the appended envelopes. With gather it first lets others add theirs.
// Nobody else may be at it; the lock is released while frames are sent.
func (s *Stream) PublishLocked(gather bool) {
	s.writing = true
	if gather {
		s.gatherLocked()
	}
	s.writeLocked(gather)
	s.wroteLocked()
	s.armLocked()
}

// wroteLocked ends the time in which others only append.
func (s *Stream) wroteLocked() {
	s.writing = false
	s.idle.Broadcast()
}

// maxYields bounds how long a writer waits for others; each is a pass of the scheduler.
const maxYields = 8

// gatherLocked lets other goroutines append as long as they do and the frame is not full.
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
			take = s.Core.TakeAck // an answer must not leave, and calls stand behind answers
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

// leaseLook is how often a session looks whether its process may answer again.
const leaseLook = 20 * time.Millisecond

// armLocked has Tick called when Core wants to be.
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

// Rewind sends unacknowledged envelopes again, because the connection is back, or another
// one carries the session now.
func (s *Stream) Rewind() {
	s.mu.Lock()
	s.Core.Rewind()
	s.mu.Unlock()
	s.Flush()
}

// Bounced records that the frame with that token had no subscriber. It returns for how long
// everything has bounced.
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

// Unreached reports whether nothing ever came to the peer this way, and it does not listen
// any more: it does not know of the session, and will not say goodbye.
func (s *Stream) Unreached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Core.Unreached() && !s.absent.IsZero() && !s.departed
}

// AwaitsBounce reports whether a bounce may be under way and prove that the peer never received
// some envelopes.
func (s *Stream) AwaitsBounce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Core.AwaitsBounce()
}

// Receive takes a frame's header. skip is how many of its envelopes have been handled
// before. ok is false when the frame must be ignored or, with dropped, belongs to a session
// that is to be made.
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

// Received ends a frame of that size: its envelopes were handled, so its acknowledgement
// counts. It reports whether something may be published now that could not before.
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

// AckSoon acknowledges handled envelopes with little delay.
func (s *Stream) AckSoon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Core.AckSoon()
}

// Find is an envelope that the peer has not acknowledged. It reports false for another one.
func (s *Stream) Find(seq uint64) (wire.Envelope, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Core.Find(seq)
}

// Void takes an envelope back that certainly did not arrive. It reports whether it could.
func (s *Stream) Void(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Core.Void(seq)
}

// Dropped reports whether the peer has dropped its side of the session.
func (s *Stream) Dropped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Core.Dropped()
}

// Close gives the session up and returns the unacknowledged envelopes, and the routes
// that wait for them. bye: the peer has said goodbye.
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

// Goodbye publishes the remaining envelopes and a last frame that says goodbye. It does nothing in a session
// that was never used.
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

// Part says goodbye to a peer that most likely does not exist any more. If it does, it
// forgets this process, whose next frame begins a new session. Unsent envelopes are not
// sent now, so that they certainly did not run.
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

package peers

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/transport"
)

// A testLane is a direct lane that counts frames, and fails when it is broken. It is safe for use
// by a session's timer.
type testLane struct {
	frames, stalls atomic.Int64
	broken         atomic.Bool
}

func (c *testLane) Send([]byte) error {
	if c.broken.Load() {
		return errors.New("broken")
	}
	c.frames.Add(1)
	return nil
}

func (c *testLane) HasEnded() bool { return c.broken.Load() }
func (c *testLane) Stalled()       { c.stalls.Add(1) }

func TestDirectPath(t *testing.T) {
	s, p, _ := newSet()
	to := s.Session(member("b"), 0)
	to.Post(tell())
	require.Equal(t, 1, p.sent())
	require.Equal(t, []*Session{to}, p.asked(), "traffic asks for a direct lane")
	to.Post(tell())
	require.Len(t, p.asked(), 1, "and seldom")

	first, second := &testLane{}, &testLane{}
	to.Use(first)
	require.EqualValues(t, 2, first.frames.Load(), "frames under way go again before later ones")
	require.Equal(t, 2, p.sent())
	to.Post(tell())
	require.EqualValues(t, 3, first.frames.Load())
	require.Equal(t, 2, p.sent())
	to.Use(second)
	require.Zero(t, second.frames.Load(), "there is one direct lane at a time")
	to.Leave(second)
	require.Equal(t, DirectLane(first), to.DirectLane())

	first.broken.Store(true)
	to.Post(tell())
	require.Equal(t, 2+4, p.sent(), "the frame and all that may be lost go by the broker")
	require.Nil(t, to.DirectLane())
	to.Use(second)
	require.EqualValues(t, 4, second.frames.Load())
	second.broken.Store(true)
	third := &testLane{}
	to.Use(third)
	require.Equal(t, DirectLane(third), to.DirectLane(), "it replaces one that has ended")
	to.Leave(second)
	require.Equal(t, DirectLane(third), to.DirectLane())
	require.Eventually(t, func() bool { return to.DirectLane() == nil }, 10*time.Second, time.Millisecond, "nothing is acknowledged")
	require.EqualValues(t, 1, third.stalls.Load())
	require.Eventually(t, func() bool { return p.sent() > 6 }, 10*time.Second, time.Millisecond)
	require.Nil(t, to.DirectLane())
}

// TestDirectFramesMayHaveArrived: an envelope that was once sent directly never counts as certainly
// not executed, however often it bounces.
func TestDirectFramesMayHaveArrived(t *testing.T) {
	for _, direct := range []bool{false, true} {
		s, p, _ := newSet()
		to := s.Session(member("b"), 0)
		if direct {
			c := &testLane{}
			to.Use(c)
			to.Post(tell())
			require.EqualValues(t, 1, c.frames.Load())
			c.broken.Store(true)
			to.Leave(c)
		} else {
			to.Post(tell())
		}
		require.Equal(t, 1, p.sent())
		sending := uint64(1)
		if direct {
			sending = 2
		}
		to.NobodyListens(1<<16 | sending)
		left, ok := s.Remove(member("b").Address, -1, false)
		require.True(t, ok)
		require.Len(t, left[0].Unacknowledged, 1)
		require.Equal(t, !direct, left[0].Unacknowledged[0].NotExecuted)
	}
}

// TestDirectFrameThatFails: if the direct lane fails and then the broker, the frame counts as sent.
func TestDirectFrameThatFails(t *testing.T) {
	s, p, _ := newSet()
	to := s.Session(member("b"), 0)
	c := &testLane{}
	c.broken.Store(true)
	to.path.lane.Store(new(DirectLane(c)))
	p.fails = transport.ErrDisconnected
	to.Post(tell())
	left, _ := s.Remove(member("b").Address, -1, false)
	require.Len(t, left[0].Unacknowledged, 1)
	require.False(t, left[0].Unacknowledged[0].NotExecuted)
}

// TestDirectLanesAreForTraffic: a session asks for a direct lane when it sends envelopes, if the
// process may have direct lanes. It does not ask when it sends acknowledgements, because each side
// asks for its own traffic.
func TestDirectLanesAreForTraffic(t *testing.T) {
	for _, c := range []struct {
		direct bool
		token  uint64 // 0: of an acknowledgement
		asks   bool
	}{{true, 1, true}, {true, 0, false}, {false, 1, false}, {false, 0, false}} {
		s, p, _ := newSet()
		s.cfg.Direct = c.direct
		to := s.Session(member("b"), 0)
		require.NoError(t, (*sessionEnv)(to).Send(c.token, []byte("frame")))
		require.Equal(t, 1, p.sent(), "the broker has it meanwhile")
		require.Equal(t, c.asks, len(p.asked()) > 0, "%+v", c)
	}
}

// TestDirectFramesAreCounted: only frames with envelopes that went over a direct lane count as
// direct, not acknowledgements.
func TestDirectFramesAreCounted(t *testing.T) {
	s, _, _ := newSet()
	to := s.Session(member("b"), 0)
	c := &testLane{}
	to.Use(c)
	to.Post(tell())
	sent, direct := s.Frames()
	require.Equal(t, []uint64{1, 1}, []uint64{sent, direct})
	require.NoError(t, (*sessionEnv)(to).Send(0, []byte("acknowledgement")))
	sent, direct = s.Frames()
	require.Equal(t, []uint64{1, 1}, []uint64{sent, direct})
	require.EqualValues(t, 2, c.frames.Load())
}

// TestDirectFramesHaveTheLimitOfTheBroker: a frame larger than the broker's limit is refused on a
// direct lane, because it may later have to go through the broker. A frame of exactly that size is
// sent.
func TestDirectFramesHaveTheLimitOfTheBroker(t *testing.T) {
	s, p, _ := newSet()
	to := s.Session(member("b"), 0)
	c := &testLane{}
	to.Use(c)
	v := (*sessionEnv)(to)
	require.NoError(t, v.Send(1, make([]byte, p.MaxPayload())))
	require.ErrorIs(t, v.Send(1, make([]byte, p.MaxPayload()+1)), transport.ErrTooLarge)
	require.EqualValues(t, 1, c.frames.Load())
}

package shard

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/prefetch"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// laneWith is a lane of a process without types, at the beginning of a frame.
func laneWith(envelopes int) *lane {
	l := &lane{driver: newDriver(Config{}, transport.Peer{}, nil)}
	l.begin(envelopes)
	return l
}

// begin has a frame of that many envelopes under way.
func (l *lane) begin(envelopes int) {
	var frame []byte
	for i := range envelopes {
		frame = wire.AppendEnvelope(frame, &wire.Envelope{
			Type: wire.TypeTell, Kind: []byte("Kind"), Entity: []byte("entity-" + strconv.Itoa(i)),
			Method: []byte("Method"), Payload: []byte(strconv.Itoa(i)),
		})
	}
	l.rest = frame
}

// kept is the first envelope that the lane still has; -1: none.
func kept(l *lane) int {
	return slices.IndexFunc(l.ahead.envelopes[:], func(e wire.Envelope) bool { return e.Type != 0 || e.Kind != nil })
}

// TestReadAheadInOrder: each envelope comes once and in order.
func TestReadAheadInOrder(t *testing.T) {
	for n := range 3*prefetch.Turns + 2 {
		l := laneWith(n)
		for i := range n {
			e, err := l.nextEnvelope()
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(i), string(e.Payload), "of %d", n)
		}
		for range 2 {
			e, err := l.nextEnvelope()
			require.Nil(t, e)
			require.NoError(t, err)
		}
	}
}

// TestReadAheadOfWhatIsNone: what stands before what is no envelope comes first, and the
// error is not lost.
func TestReadAheadOfWhatIsNone(t *testing.T) {
	for n := range 2*prefetch.Turns + 2 {
		l := laneWith(n)
		l.rest = append(l.rest, 0x7a, 0x02, 0x08) // an envelope that is cut off
		for i := range n {
			e, err := l.nextEnvelope()
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(i), string(e.Payload), "of %d", n)
		}
		e, err := l.nextEnvelope()
		require.Nil(t, e)
		require.ErrorIs(t, err, wire.ErrFrame)
		l.ahead.clear()
		require.Equal(t, -1, kept(l), "after %d", n)
	}
}

// TestReadAheadLetsGo: no envelope stays behind its frame.
func TestReadAheadLetsGo(t *testing.T) {
	for n := range 3*prefetch.Turns + 2 {
		l := laneWith(n)
		for range n {
			_, err := l.nextEnvelope()
			require.NoError(t, err)
		}
		l.ahead.clear()
		require.Equal(t, -1, kept(l), "after %d", n)
	}
}

// TestReadAheadNextFrame: what a frame has beyond the number it says is not the next's.
func TestReadAheadNextFrame(t *testing.T) {
	l := laneWith(prefetch.Turns)
	for range 3 {
		_, err := l.nextEnvelope()
		require.NoError(t, err)
	}
	l.ahead.clear()
	l.begin(2)
	e, err := l.nextEnvelope()
	require.NoError(t, err)
	require.Equal(t, "0", string(e.Payload))
}

// TestCallOutlivesItsEnvelope: a turn that lost its lane keeps nothing of the lane's.
func TestCallOutlivesItsEnvelope(t *testing.T) {
	l := laneWith(2 * prefetch.Turns)
	var calls []*inCall
	for range 2 * prefetch.Turns {
		e, err := l.nextEnvelope()
		require.NoError(t, err)
		c := new(inCall)
		c.fill(l.driver, transport.Peer{}, e, 0, time.Time{})
		calls = append(calls, c)
	}
	l.ahead.clear()
	for i, c := range calls {
		require.Equal(t, fmt.Sprint("entity-", i, " ", i), c.Entity+" "+string(c.Args))
	}
}

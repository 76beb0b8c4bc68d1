package direct

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/driver/direct/agree"
	"github.com/shardgen/shardgen/transport"
)

func TestFrames(t *testing.T) {
	a, b, ofA, ofB := pair(t)
	require.Equal(t, b.self, ofA.Peer())
	require.Equal(t, a.self, ofB.Peer())
	require.Equal(t, 1, ofA.Lane())
	require.Equal(t, 1, ofB.Lane())
	rng := rand.New(rand.NewPCG(1, 1))
	var frames [][]byte
	for _, size := range []int{1, 3, 100, 16 << 10, growBy, growBy + 1, 3*growBy + 7, 1 << 20} {
		frame := make([]byte, size)
		for i := range frame {
			frame[i] = byte(rng.Uint32())
		}
		frames = append(frames, frame)
	}
	for _, way := range []struct{ from, to *Conn }{{ofA, ofB}, {ofB, ofA}} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, frame := range frames {
				got, ok := way.to.TryReceive()
				if !ok {
					var err error
					if got, err = way.to.Receive(); err != nil {
						t.Error(err)
						return
					}
				}
				if !bytes.Equal(frame, got.Payload) || got.From != way.to.Peer().Address {
					t.Errorf("another frame than the one of %d bytes", len(frame))
				}
			}
		}()
		for _, frame := range frames {
			require.NoError(t, way.from.Send(frame)) // the largest is as large as what may wait
			if len(frame) > growBy {
				require.Eventually(t, func() bool { return way.from.out.pending() == 0 }, testPatience, testTick)
			}
		}
		<-done
	}
}

// TestSendNeverBlocks: two ends that do not read can both send up to the bound of waiting bytes.
func TestSendNeverBlocks(t *testing.T) {
	frame := make([]byte, 60<<10)
	for dialed := range 2 {
		_, _, ofA, ofB := pair(t)
		c := []*Conn{ofA, ofB}[dialed]
		sent, longest := 0, time.Duration(0)
		for {
			begin := time.Now()
			err := c.Send(frame)
			longest = max(longest, time.Since(begin))
			if err != nil {
				require.ErrorIs(t, err, errCrowded)
				break
			}
			if sent += len(frame); sent > 100<<20 {
				t.Fatal("nothing bounds it")
			}
			require.LessOrEqual(t, c.out.pending(), 1<<20+len(frame)+growBy)
		}
		t.Log(sent, "bytes before the bound, longest", longest)
		require.Less(t, longest, testPatience/10)
		require.Equal(t, agree.Crowded, c.Why())
		require.Error(t, c.Send(frame))
	}
}

// TestSlowReader: bytes that waited for a slow reader arrive in order.
func TestSlowReader(t *testing.T) {
	_, _, ofA, ofB := pair(t)
	const count = 4000
	tick := time.NewTicker(testTick)
	defer tick.Stop()
	go func() {
		for i := range count {
			frame := binary.BigEndian.AppendUint32(nil, uint32(i))
			frame = append(frame, make([]byte, 10<<10)...)
			for ofA.out.pending() > 500<<10 {
				<-tick.C
			}
			if err := ofA.Send(frame); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range count {
		m, err := ofB.Receive()
		require.NoError(t, err)
		require.EqualValues(t, i, binary.BigEndian.Uint32(m.Payload))
		require.Len(t, m.Payload, 4+10<<10)
	}
}

// TestBadLength: a length out of bounds ends the connection, before memory for the frame is
// allocated.
func TestBadLength(t *testing.T) {
	for _, length := range []uint32{0, 1<<20 + 1, 1<<32 - 1} {
		_, _, ofA, ofB := pair(t)
		_, err := ofA.tls.Write(binary.BigEndian.AppendUint32(nil, length))
		require.NoError(t, err)
		_, err = ofB.Receive()
		require.ErrorIs(t, err, errLength)
		require.Equal(t, agree.Forged, ofB.Why())
	}
}

// TestCutInAFrame: half a frame counts as no frame.
func TestCutInAFrame(t *testing.T) {
	_, _, ofA, ofB := pair(t)
	_, err := ofA.tls.Write(append(binary.BigEndian.AppendUint32(nil, 1000), make([]byte, 500)...))
	require.NoError(t, err)
	ofA.Fail(agree.Over)
	_, err = ofB.Receive()
	require.Error(t, err)
	require.Equal(t, agree.Broken, ofB.Why())
	require.Error(t, ofA.Send([]byte("x")))
}

// FuzzReadFrame: any bytes give frames within the bound, or an error. The memory used is at most
// growBy, or twice the bytes that have arrived.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'x'})
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0, 1, 0x11, 0x70, 'a', 'b'})
	const limit = 100_000
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		left := len(b)
		for {
			frame, err := readFrame(r, func() int { return limit })
			if err != nil {
				return
			}
			if len(frame) == 0 || len(frame) > limit || len(frame)+lengthBytes > left {
				t.Fatalf("a frame of %d bytes, %d are left", len(frame), left)
			}
			left -= len(frame) + lengthBytes
		}
	})
}

// TestVersionGoesFirst: a frame that is sent as soon as the listening side has the connection is
// sent after the version, because the dialing side reads the version first.
func TestVersionGoesFirst(t *testing.T) {
	broker := newBroker()
	a, b := broker.process(t, memberA, "127.0.0.1:0"), broker.process(t, memberB, "127.0.0.1:0")
	b.wanted = func(c *Conn) {
		if err := c.Send([]byte("early")); err != nil {
			t.Error(err)
		}
	}
	broker.change = func(from transport.Peer, m agree.Message) agree.Message {
		if _, renewal := m.(agree.Renewal); renewal && from == b.self {
			b.lanes.Want(a.self, 1) // it has the connection now
		}
		return m
	}
	a.lanes.Want(b.self, 1)
	m, err := a.await().Receive()
	require.NoError(t, err)
	require.Equal(t, "early", string(m.Payload))
	b.await()
}

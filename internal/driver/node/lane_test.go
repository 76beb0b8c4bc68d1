package node

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// TestCallOutlivesItsEnvelope: a turn that has lost its lane keeps no memory of the lane, which
// parses each envelope into the same memory.
func TestCallOutlivesItsEnvelope(t *testing.T) {
	const n = 10
	var frame []byte
	for i := range n {
		frame = wire.AppendEnvelope(frame, &wire.Envelope{
			Type: wire.TypeTell, Kind: []byte("Kind"), Entity: []byte("entity-" + strconv.Itoa(i)),
			Method: []byte("Method"), Payload: []byte(strconv.Itoa(i)),
		})
	}
	l := &lane{driver: NewDriver(testConfig(), transport.Peer{}, nil)}
	var calls []*InCall
	for range n {
		rest, ok, err := wire.NextEnvelope(frame, &l.next)
		require.NoError(t, err)
		require.True(t, ok)
		frame = rest
		c := new(InCall)
		c.fill(l.driver, transport.Peer{}, &l.next, 0, time.Time{})
		calls = append(calls, c)
	}
	l.next = wire.Envelope{}
	for i, c := range calls {
		require.Equal(t, fmt.Sprint("entity-", i, " ", i), c.Entity+" "+string(c.Args))
	}
}

// TestLaneConfusesNoSenders: whether a frame is forged, and to which session it belongs, does not
// depend on the previous frame, although the lane remembers that frame's sender.
func TestLaneConfusesNoSenders(t *testing.T) {
	drv := NewDriver(testConfig(), transport.Peer{Address: transport.Address{Name: "a", Incarnation: 1}}, knowing{})
	peer := func(name string, class identity.Class, n uint64) transport.Peer {
		return transport.Peer{Address: transport.Address{Name: name, Incarnation: identity.Mark(class, n)}, Client: class != identity.Member}
	}
	member, prefix, next := peer("web", identity.Member, 7), peer("we", identity.Member, 7), peer("web", identity.Member, 8)
	client, other := peer("web", identity.Client, 7), peer("web", identity.Client, 8)
	pretender, listener := client, member
	pretender.Client, listener.Client = false, true
	numbers := map[transport.Peer]uint64{}
	for i, p := range []transport.Peer{client, other} { // the sessions with clients have numbers, from 1 on
		require.NotNil(t, drv.Sessions.Session(p, 0))
		numbers[p] = uint64(i + 1)
	}
	type message struct {
		named transport.Address
		from  transport.Peer
	}
	none := transport.Address{}
	messages := []message{
		{none, member},
		{none, prefix},
		{none, next},
		{member.Address, member}, // the last one as on a direct lane
		{client.Address, client},
		{other.Address, other},
		{none, client},
		{client.Address, other},
		{other.Address, client},
		{client.Address, member},
		{member.Address, next}, // forged
		{client.Address, pretender},
		{none, listener},
		{member.Address, listener},
	}
	handle := func(l *lane, m message) (ok bool) {
		header := wire.FrameHeader{Version: 1, From: m.from, Seq: 1, Session: numbers[m.from]}
		l.message(transport.Message{From: m.named, Payload: wire.AppendFrameHeader(nil, &header)})
		if !l.open {
			return false
		}
		require.Equal(t, m.from, l.from.Peer())
		require.True(t, l.frame())
		return true
	}
	for _, before := range messages {
		for _, m := range messages {
			l := newLane(drv, 0, nil)
			handle(l, before)
			for range 2 {
				want := wire.Vouched(transport.Message{From: m.named}, m.from)
				require.Equal(t, want, handle(l, m), "%v named %v behind %v named %v", m.from, m.named, before.from, before.named)
			}
		}
	}
}

// TestLaneLeavesEndedSession: a lane does not use the previous frame's session again if that
// session has ended.
func TestLaneLeavesEndedSession(t *testing.T) {
	drv := NewDriver(testConfig(), transport.Peer{Address: transport.Address{Name: "a", Incarnation: 1}}, knowing{})
	peer := transport.Peer{Address: transport.Address{Name: "b", Incarnation: 2}}
	frame := wire.AppendFrameHeader(nil, &wire.FrameHeader{Version: 1, From: peer, Seq: 1})
	l := newLane(drv, 0, nil)
	handle := func() bool {
		l.message(transport.Message{Payload: frame})
		return l.open && l.frame()
	}
	require.True(t, handle())
	ended := l.from
	_, first := drv.Sessions.Remove(peer.Address, -1, false)
	require.True(t, first)
	require.False(t, handle(), "the process was removed")
	drv.Sessions.Forgive(peer.Address)
	require.True(t, handle())
	require.NotSame(t, ended, l.from)
	require.Same(t, drv.Sessions.Session(peer, 0), l.from)
}

// TestLeftProcessIsDeaf: after StopReceiving a process handles answers to its own calls, and nothing
// else. It acknowledges nothing, so that the sender gets its envelopes back.
func TestLeftProcessIsDeaf(t *testing.T) {
	st := newStand(t)
	peer := transport.Peer{Address: transport.Address{Name: "b", Incarnation: 2}}
	c, id := st.driver.Pending.Open(0, 0)
	frame := wire.AppendFrameHeader(nil, &wire.FrameHeader{Version: 1, From: peer, Seq: 1, Count: 2})
	frame = wire.AppendEnvelope(frame, &wire.Envelope{Type: wire.TypeTell, Kind: []byte("Cart"), Entity: []byte("x"), Method: []byte("Add"), Epoch: 1})
	frame = wire.AppendEnvelope(frame, &wire.Envelope{Type: wire.TypeAnswer, ID: id})
	(*dataEnv)(st.driver).StopReceiving()
	l := newLane(st.driver, 0, nil)
	l.message(transport.Message{Payload: frame})
	require.True(t, l.open && l.frame())
	st.answered(c)
	require.Zero(t, st.ran)
	require.Zero(t, l.from.Handled.Load())
}

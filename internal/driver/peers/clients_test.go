package peers

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

func outsider(name string, i int) transport.Peer {
	return transport.Peer{Address: transport.Address{Name: name, Incarnation: identity.Mark(identity.Client, uint64(i))}, Client: true}
}

// TestInventedClientsAreBounded: 300,000 invented incarnations of one name get no more sessions
// than one name may have. Clients of other names get their sessions, and sessions without a message
// expire.
func TestInventedClientsAreBounded(t *testing.T) {
	s, p, _ := newSet()
	served := 0
	for i := range 300_000 {
		if s.Session(outsider("evil", i), 0) != nil {
			served++
		}
	}
	require.Equal(t, MaxNamed, served)
	require.Len(t, s.peers, MaxNamed)
	require.Len(t, p.turned, 300_000-MaxNamed)
	require.NotNil(t, s.Session(outsider("evil", 5), 1), "one that has a session keeps it")
	require.NotNil(t, s.Session(outsider("web", 1), 0), "another name has room")
	require.NotNil(t, s.Session(member("b"), 0), "members are not bounded")

	s.SweepClients(time.Now())
	require.Len(t, s.peers, MaxNamed+2, "too early")
	s.SweepClients(time.Now().Add(unusedFor + time.Second))
	require.Len(t, s.peers, 1, "only the member is left")
	require.Equal(t, 1, s.most, "the memory of the others is kept")
	require.Empty(t, s.named)
	require.Equal(t, MaxNamed+1, p.counts[Expired])
	require.NotNil(t, s.Session(outsider("evil", 400_000), 0), "there is room again")
}

// TestAbsentPeersAreKept: a member at whose address nobody listens keeps its sessions, because the
// cluster decides about members. A client keeps them until its patience ends.
func TestAbsentPeersAreKept(t *testing.T) {
	s, _, _ := newSet()
	s.SetClientPatience(time.Hour)
	for _, peer := range []transport.Peer{outsider("web", 1), member("b")} {
		session := s.Session(peer, 0)
		session.NobodyListens(0)
		require.Same(t, session, s.Known(peer.Address, 0), "%v", peer)
	}
	s.SetClientPatience(-1)
	session := s.Session(member("b"), 0)
	session.NobodyListens(0)
	require.Same(t, session, s.Known(member("b").Address, 0))
}

// TestClientWithoutGoodbyeExpires: a client that was silent for long is sent a message. If nobody
// listens for the set patience, the client's sessions end. If the client listens, it keeps its
// sessions.
func TestClientWithoutGoodbyeExpires(t *testing.T) {
	s, p, _ := newSet()
	for i := range 2 {
		session := s.Session(outsider("web", i), 0)
		h := wire.FrameHeader{Version: wire.FrameVersion, Seq: 1, Count: 1, Session: uint64(1 + 2*i)} // two lanes each
		_, _, ok := session.Receive(&h, time.Now())
		require.True(t, ok)
	}
	dead := s.Known(outsider("web", 0).Address, 0)
	s.SetClientPatience(0)
	begin := time.Now()
	s.SweepClients(begin.Add(unusedFor + time.Second))
	require.Zero(t, p.sent(), "used a moment ago")
	for i := range 3 {
		s.SweepClients(begin.Add(silentFor + time.Second + time.Duration(i)*silentFor))
		require.Equal(t, 2*(i+1), p.sent(), "each of the two is sent something")
		dead.NobodyListens(0)
		if s.Known(dead.Peer().Address, 0) == nil {
			break
		}
	}
	require.Nil(t, s.Known(dead.Peer().Address, 0), fmt.Sprint("expired: ", p.counts[Expired]))
	require.NotNil(t, s.Known(outsider("web", 1).Address, 0))
	require.Equal(t, 1, s.named["web"].clients)
}

// TestClientThatAcknowledgesNothingEnds: the sessions of a client end if it sends and listens but
// acknowledges nothing for a minute. Members, and clients with nothing to acknowledge, keep their
// sessions.
func TestClientThatAcknowledgesNothingEnds(t *testing.T) {
	s, p, _ := newSet()
	deaf, fair := outsider("web", 0), outsider("web", 1)
	for _, to := range []transport.Peer{deaf, member("b")} {
		session := s.Session(to, 0)
		require.True(t, session.Answer(&wire.Envelope{Type: wire.TypeAnswer, ID: 1, Payload: make([]byte, 100)}, nil))
	}
	owes, owesNot, begin := s.Session(deaf, 0), s.Session(fair, 0), time.Now()
	for _, after := range []time.Duration{0, stalledFor / 2, stalledFor - time.Second, stalledFor + time.Second} {
		for i, session := range []*Session{owes, owesNot} { // both send
			h := wire.FrameHeader{Version: wire.FrameVersion, Seq: session.Core.Received() + 1, Count: 1, Session: uint64(1 + 2*i)}
			session.Receive(&h, begin.Add(after))
		}
		require.NotNil(t, s.Known(deaf.Address, 0), "too early")
		s.SweepClients(begin.Add(after))
	}
	require.Nil(t, s.Known(deaf.Address, 0))
	require.NotNil(t, s.Known(fair.Address, 0))
	require.NotNil(t, s.Known(member("b").Address, 0))
	require.Equal(t, 1, p.counts[Expired])
}

// TestAnswersOfOneNameAreBounded: the answers kept for all clients of one name together are
// bounded. Answers for another name and for members are kept.
func TestAnswersOfOneNameAreBounded(t *testing.T) {
	s, p, _ := newSet()
	const size = 10_000
	answer := func(to transport.Peer) {
		s.Session(to, 0).Answer(&wire.Envelope{Type: wire.TypeAnswer, ID: 1, Payload: make([]byte, size)}, nil)
	}
	for i := range 3000 {
		answer(outsider("evil", i%100))
	}
	held, _ := s.Session(outsider("evil", 0), 0).Core.Account.Held()
	require.LessOrEqual(t, held, int64(3*s.cfg.AnswerBytes))
	require.Positive(t, p.counts[AnswerDropped])
	dropped := p.counts[AnswerDropped]
	for range 100 {
		answer(outsider("web", 1))
		answer(member("b"))
	}
	require.Equal(t, dropped, p.counts[AnswerDropped])
	require.Equal(t, stream.Within, s.Session(outsider("web", 1), 0).Core.Account.Excess())
}

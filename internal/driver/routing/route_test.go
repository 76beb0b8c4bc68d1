package routing

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

func node(name string) transport.Address { return transport.Address{Name: name, Incarnation: 1} }

func at(n uint32) placement.Epoch { return placement.MakeEpoch(1, n) }

// A host is the process of one route. It is named self, and records what the route does.
type host struct {
	Route
	did      []string
	sessions map[transport.Address]*session
	shard    *shard
	gone     map[uint64]bool // calls that no caller waits for
	taken    int
	full     error // the error of Admit
}

func newHost() *host {
	h := &host{sessions: map[transport.Address]*session{}, gone: map[uint64]bool{}}
	h.Init(h, []byte("K"), 1)
	return h
}

func (h *host) say(format string, args ...any) { h.did = append(h.did, fmt.Sprintf(format, args...)) }

// take returns what was recorded since its last call.
func (h *host) take() []string {
	did := h.did
	h.did = nil
	return did
}

func (h *host) hold(id uint64) {
	out := stream.Outgoing{Envelope: wire.Envelope{Type: wire.TypeCall, ID: id}}
	h.Core.Hold(out)
	h.Taken([]stream.Outgoing{out})
}

func (h *host) Self() transport.Peer { return transport.Peer{Address: node("self")} }
func (h *host) Now() time.Time       { return time.Unix(1, 0) }
func (h *host) Session(a transport.Address) (Session, bool) {
	if h.sessions[a] == nil {
		h.sessions[a] = &session{host: h, peer: transport.Peer{Address: a}}
	}
	return h.sessions[a], true
}

func (h *host) Known(a transport.Address) (Session, bool) {
	s, ok := h.sessions[a]
	return s, ok
}
func (h *host) Local() (Local, bool)             { return h.shard, h.shard != nil }
func (h *host) Ask()                             { h.say("ask") }
func (h *host) Waits(id uint64) bool             { return !h.gone[id] }
func (h *host) Expired()                         { h.say("expired") }
func (h *host) Unsent(e *wire.Envelope, _ error) { h.say("unsent %d", e.ID) }
func (h *host) Taken(out []stream.Outgoing)      { h.taken += len(out) }
func (h *host) Released(out []stream.Outgoing)   { h.taken -= len(out) }
func (h *host) Retry(n int) error                { h.say("retry %d", n); return nil }
func (h *host) Admit(size int, tell bool) error {
	h.say("admit %d bytes", size)
	if h.full == nil {
		h.taken++
	}
	return h.full
}

func (h *host) Held(shed []stream.Outgoing) {
	h.say("held")
	for i := range shed {
		h.say("shed %d", shed[i].Envelope.ID)
	}
}

func (h *host) Sent(id uint64, to Session, seq uint64) {
	if to == nil {
		h.say("%d is nowhere", id)
		return
	}
	h.say("%d went to %s as %d", id, to.Peer().Name, seq)
}

// A session is a session with a peer. It records appended envelopes.
type session struct {
	host       *host
	peer       transport.Peer
	seq, acked uint64
	left       bool
	err        error // the error of AppendLocked
}

func (s *session) Peer() transport.Peer { return s.peer }
func (s *session) Lock()                {}
func (s *session) Unlock()              {}
func (s *session) DepartedLocked() bool { return s.left }
func (s *session) HasDeparted() bool    { return s.left }
func (s *session) AckedLocked() uint64  { return s.acked }
func (s *session) AwaitLocked(*Route)   { s.host.say("await %s", s.peer.Name) }
func (s *session) Flush()               { s.host.say("publish to %s", s.peer.Name) }
func (s *session) AppendLocked(e *wire.Envelope) (uint64, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.seq++
	what := map[wire.Type]string{wire.TypeCall: "call", wire.TypeFlush: "flush", wire.TypeBarrier: "barrier"}[e.Type]
	s.host.say("%s %d at %d to %s", what, e.ID, placement.Epoch(e.Epoch).Counter(), s.peer.Name)
	return s.seq, nil
}

// A shard is the shard at the process itself.
type shard struct{ host *host }

func (s *shard) CloseBarrier(_, via transport.Address, epoch placement.Epoch, _ bool) {
	s.host.say("barrier via %s at %d", via.Name, epoch.Counter())
}
func (s *shard) Flush(f region.Flush) { s.host.say("flush at %d", f.Epoch.Counter()) }
func (s *shard) Enqueue(e *wire.Envelope) {
	s.host.say("enqueue %d at %d", e.ID, placement.Epoch(e.Epoch).Counter())
}
func (s *shard) Direct(on bool) { s.host.say("direct: %v", on) }

// TestWaitingCallsGoToTheHome: held calls go to the home under its epoch, in order and before any
// other call, if their callers still wait.
func TestWaitingCallsGoToTheHome(t *testing.T) {
	h := newHost()
	for id := range uint64(3) {
		h.hold(id + 1)
	}
	h.gone[2] = true
	h.Learn(node("b"), at(1), false)
	require.Equal(t, []string{
		"call 1 at 1 to b", "1 went to b as 1", "expired", "call 3 at 1 to b", "3 went to b as 2", "publish to b",
	}, h.take())
	require.Equal(t, h.sessions[node("b")], h.Target().Session)
	require.Equal(t, at(1), h.Target().Epoch)
	require.Zero(t, h.taken)
}

// TestWaitingCallThatCannotBeSent: a held call that no session takes, for example because it is too
// large, ends with an error.
func TestWaitingCallThatCannotBeSent(t *testing.T) {
	h := newHost()
	h.hold(1)
	h.sessions[node("b")] = &session{host: h, peer: transport.Peer{Address: node("b")}, err: stream.ErrTooLarge}
	h.Learn(node("b"), at(1), false)
	require.Equal(t, []string{"unsent 1", "publish to b"}, h.take())
	require.Zero(t, h.taken)
	require.Zero(t, h.Core.LastSeq)
	require.NotNil(t, h.Target())
}

// TestMoveIsFollowedInOrder: calls to the former home stop, and the former home gets a Flush. When
// it has acknowledged all, calls go to the new home, after a barrier.
func TestMoveIsFollowedInOrder(t *testing.T) {
	h := newHost()
	h.hold(1)
	h.Learn(node("b"), at(1), false)
	h.take()
	h.Learn(node("c"), at(2), false)
	require.Equal(t, []string{"flush 0 at 2 to b", "await b", "publish to b"}, h.take())
	require.Nil(t, h.Target())
	require.False(t, h.LeftLocked().IsZero())
	h.hold(2)
	h.Acked(node("b"), h.sessions[node("b")].seq)
	require.Equal(t, []string{
		"barrier 0 at 2 to c", "call 2 at 2 to c", "2 went to c as 2", "publish to c",
	}, h.take())
	require.Equal(t, h.sessions[node("c")], h.Target().Session)
	require.True(t, h.LeftLocked().IsZero())
	require.True(t, h.LeadsTo(node("c")))
}

// TestLearntHome: a home that another process names is followed if it is newer. An older home is
// followed only if forced, as after a refusal. The place where a singleton was found is followed
// while the route leads nowhere.
func TestLearntHome(t *testing.T) {
	h := newHost()
	h.Learn(node("b"), at(3), false)
	require.True(t, h.LeadsTo(node("b")))
	h.Learn(node("c"), at(2), false)
	require.True(t, h.LeadsTo(node("b")), "an older home")
	h.Learn(node("c"), at(2), true)
	require.True(t, h.LeadsTo(node("c")), "an older home that must be believed")

	h = newHost()
	h.Found(node("b"), at(3))
	require.True(t, h.LeadsTo(node("b")))
	h.Found(node("c"), at(2))
	require.True(t, h.LeadsTo(node("b")), "under a lower epoch")
	h.HomeDeparted(node("b"), nil)
	h.Found(node("c"), at(2))
	require.True(t, h.LeadsTo(node("c")), "under a lower epoch, when the other has departed")
}

// TestHomeThatIsHere: calls go directly to the shard of this process. When the shard leaves, they
// no longer do.
func TestHomeThatIsHere(t *testing.T) {
	h := newHost()
	h.shard = &shard{h}
	h.hold(1)
	h.Learn(node("self"), at(1), false)
	require.Equal(t, []string{"1 is nowhere", "enqueue 1 at 1", "direct: true"}, h.take())
	require.Equal(t, h.shard, h.Target().Local)
	require.Nil(t, h.Target().Session)
	h.Learn(node("b"), at(2), false)
	require.Equal(t, "direct: false", h.take()[0])
	require.NotNil(t, h.Target())
	require.Equal(t, h.sessions[node("b")], h.Target().Session)
}

// TestHomeThatIsNotHere: if the table is wrong about this process, calls wait for another table.
func TestHomeThatIsNotHere(t *testing.T) {
	h := newHost()
	h.hold(1)
	h.Learn(node("self"), at(1), false)
	require.Equal(t, 1, h.Core.Held())
	require.Equal(t, 1, h.taken)
	h.Learn(node("b"), at(2), false)
	require.Zero(t, h.Core.Held())
	require.Contains(t, h.take(), "publish to b")
}

// TestHomeWithoutSession: a home whose session has ended gets no calls, and the route asks for
// another home.
func TestHomeWithoutSession(t *testing.T) {
	h := newHost()
	h.hold(1)
	h.sessions[node("b")] = &session{host: h, peer: transport.Peer{Address: node("b")}, left: true}
	h.Learn(node("b"), at(1), false)
	require.Contains(t, h.take(), "ask")
	require.Nil(t, h.Target())
	require.Equal(t, 1, h.Core.Held())
	require.Equal(t, 1, h.taken)
}

// carry sends a call as a process does.
func (h *host) carry(id uint64) error {
	e := &wire.Envelope{Type: wire.TypeCall, ID: id, Payload: []byte("abc")}
	return h.Send(e, Carrier{
		Here: func(t *Target) (bool, error) {
			h.say("here %d at %d", e.ID, t.Epoch.Counter())
			return true, nil
		},
		AppendLocked: func(s Session) (uint64, error) {
			if s.DepartedLocked() {
				return 0, errors.New("gone")
			}
			return s.AppendLocked(e)
		},
		PublishUnlock: func(s Session) { s.Unlock(); s.Flush() },
	})
}

// TestCallsAreSentWhereTheRouteLeads: a call is held while there is no home. Otherwise it goes to
// the shard here, or to the session with the home. In a session its number is recorded before any
// goroutine can publish it. If the session has ended, the call is held again.
func TestCallsAreSentWhereTheRouteLeads(t *testing.T) {
	h := newHost()
	require.NoError(t, h.carry(1))
	require.Equal(t, []string{"admit 3 bytes", "held"}, h.take())
	require.Equal(t, 1, h.taken)
	h.Learn(node("b"), at(1), false)
	h.take()
	require.Zero(t, h.taken)
	require.NoError(t, h.carry(2))
	require.Equal(t, []string{"call 2 at 1 to b", "2 went to b as 2", "publish to b"}, h.take())
	require.Equal(t, uint64(2), h.Core.LastSeq)
	h.sessions[node("b")].left = true
	require.NoError(t, h.carry(3))
	require.Equal(t, []string{"admit 3 bytes", "held"}, h.take())
	require.True(t, h.Withdraw(3))
	require.False(t, h.Withdraw(3))
	require.Zero(t, h.taken)

	h = newHost()
	h.shard = &shard{h}
	h.Learn(node("self"), at(1), false)
	h.take()
	require.NoError(t, h.carry(1))
	require.Equal(t, []string{"here 1 at 1"}, h.take())
}

// TestRoomForHeldCalls: a call for which there is no room fails. A bounded route drops its oldest
// calls instead.
func TestRoomForHeldCalls(t *testing.T) {
	h := newHost()
	h.full = ErrBytes
	require.ErrorIs(t, h.carry(1), ErrBytes)
	require.Zero(t, h.Core.Held())
	h = newHost()
	h.HoldAtMost(1)
	require.NoError(t, h.carry(1))
	require.NoError(t, h.carry(2))
	require.Equal(t, []string{"admit 3 bytes", "held", "admit 3 bytes", "held", "shed 1"}, h.take())
	require.Equal(t, 1, h.taken)
	h = newHost()
	h.HoldAtMost(0)
	require.NoError(t, h.carry(1))
	require.Equal(t, []string{"admit 3 bytes", "held", "shed 1"}, h.take())
	require.Zero(t, h.taken)
}

// A sorter records what GiveBack does with a peer's unacknowledged envelopes.
type sorter struct{ *host }

func (s sorter) RouteOf(*wire.Envelope) *Route { return &s.Route }
func (s sorter) Lost(e *wire.Envelope)         { s.say("lost %d", e.ID) }
func (s sorter) Again(e *wire.Envelope)        { s.say("again %d", e.ID) }

// TestLeftEnvelopesAreSorted: this process's own calls are sent again if they certainly did not run,
// and are lost otherwise. Answers, messages of moves, and envelopes that this process had forwarded are
// left out.
func TestLeftEnvelopesAreSorted(t *testing.T) {
	h := newHost()
	h.Learn(node("b"), at(1), false)
	h.take()
	h.gone[6] = true
	other := transport.Peer{Address: node("c")}
	left := []stream.Unacknowledged{
		{Envelope: wire.Envelope{Type: wire.TypeAnswer, ID: 1}, NotExecuted: true},
		{Envelope: wire.Envelope{Type: wire.TypeReady, Node: other}, NotExecuted: true},
		{Envelope: wire.Envelope{Type: wire.TypeCall, ID: 2, Node: other}, NotExecuted: true},
		{Envelope: wire.Envelope{Type: wire.TypeTell, Node: other}},
		{Envelope: wire.Envelope{Type: wire.TypeFlushed}, NotExecuted: true},
		{Envelope: wire.Envelope{Type: wire.TypeCall, ID: 4}, NotExecuted: true},
		{Envelope: wire.Envelope{Type: wire.TypeCall, ID: 5}},
		{Envelope: wire.Envelope{Type: wire.TypeCall, ID: 6}},
		{Envelope: wire.Envelope{Type: wire.TypeTell}, NotExecuted: true},
	}
	GiveBack(sorter{h}, node("b"), left, []*Route{&h.Route})
	require.Equal(t, []string{
		"again 4", "lost 5", "again 0", "ask",
	}, h.take())
	require.Equal(t, 2, h.Core.Held(), "the call and the tell wait for the next home")
	require.Nil(t, h.Target())
}

// TestRefusedCallGoesToTheNamedHome: if a home refuses a call and names another home, the call goes
// to that home. Before that, the first home must have acknowledged what was sent there.
func TestRefusedCallGoesToTheNamedHome(t *testing.T) {
	h := newHost()
	h.hold(1)
	h.Learn(node("b"), at(1), false)
	h.take()
	h.sessions[node("b")].acked = 1
	h.Refused(node("b"), wire.Envelope{Type: wire.TypeCall, ID: 1}, node("c"), at(2))
	require.Equal(t, []string{
		"1 is nowhere", "flush 0 at 2 to b", "publish to b", "barrier 0 at 2 to c", "call 1 at 2 to c", "1 went to c as 2", "publish to c",
	}, h.take())
	require.True(t, h.LeadsTo(node("c")))
	require.Zero(t, h.taken)
}

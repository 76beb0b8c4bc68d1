package calls

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/routing"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A stage is a process with one hosted shard and one session. It records what the Plane does. A
// method that no test expects belongs to a nil interface, and panics.
type stage struct {
	Env
	Plane
	calls   Table
	did     []string
	left    []stream.Unacknowledged
	hosts   bool
	owes    func() bool
	holds   func() bool
	unacked func() bool
	now     func() time.Duration
	peer    *session
	shard   shard
	closed  bool
	flushes []region.Flush // the Flushes that shards got
	after   func(time.Duration, func())
	parted  map[transport.Address]bool
	route   *routing.Route // the only route; nil means none
	dropped *Left          // what Renew returns; nil means that the session was already replaced
}

func newStage() *stage {
	s := &stage{hosts: true}
	s.peer = &session{stage: s}
	s.shard.stage = s
	s.Init(s)
	s.calls.Init(func() Caller { return sleeper{} })
	return s
}

func (s *stage) say(format string, args ...any) { s.did = append(s.did, fmt.Sprintf(format, args...)) }

func (s *stage) Self() transport.Peer                { return transport.Peer{Address: address("self")} }
func (s *stage) Calls() *Table                       { return &s.calls }
func (s *stage) Refused(c wire.Code)                 { s.say("refused: %d", c) }
func (s *stage) Count(e Counter)                     { s.say("count %d", e) }
func (s *stage) Lost(_ *wire.Envelope, how Loss)     { s.say("lost: %v", how) }
func (s *stage) EachShard(_ int, f func(Shard))      { f(&s.shard) }
func (s *stage) Shard([]byte, uint32) (Shard, bool)  { return &s.shard, s.hosts }
func (s *stage) Peers() []transport.Address          { return []transport.Address{address("b"), address("c")} }
func (s *stage) Part(a transport.Address)            { s.say("part with %s", a.Name) }
func (s *stage) Forgive(a transport.Address)         { s.say("forgive %s", a.Name) }
func (s *stage) Now() time.Time                      { return time.Time{}.Add(s.now()) }
func (s *stage) Unacknowledged() func() bool         { return s.unacked }
func (s *stage) StopReceiving()                      { s.step("deaf") }
func (s *stage) step(what string)                    { s.say("%v %s", s.now(), what) }
func (s *stage) MarkLeft(a transport.Address)        { s.say("%s left", a.Name) }
func (s *stage) Parted(a transport.Address) bool     { return s.parted[a] }
func (s *stage) After(d time.Duration, f func())     { s.after(d, f) }
func (s *stage) Route([]byte, uint32) *routing.Route { return s.route }
func (s *stage) EachRoute(_ int, f func(*routing.Route)) {
	s.say("home gone")
	if s.route != nil {
		f(s.route)
	}
}

func (s *stage) Session(to transport.Peer, _ int) (Session, bool) {
	return s.peer, to.Address != address("gone")
}
func (s *stage) TellRefused(Session, *wire.Envelope)          { s.say("tell refused") }
func (s *stage) Returned(*wire.Envelope, int) *shardhost.Call { return &shardhost.Call{} }
func (s *stage) Close(transport.Address, int, bool) ([]Left, bool) {
	if s.closed {
		return nil, false
	}
	s.closed = true
	return []Left{{Session: s.peer, Unacknowledged: s.left}}, true
}

func (s *stage) Table() *placement.Table { return nil }
func (s *stage) Renewed(left *Left, lost int) {
	s.say("renewed %s, lost %d", left.Session.Peer().Name, lost)
}
func (s *stage) Renew(Session) (Session, *Left) { return &session{stage: s}, s.dropped }

type sleeper struct{}

func (sleeper) Wake() {}

type session struct {
	Session
	stage   *stage
	name    string // the peer's name; empty means b
	goodbye bool
	sent    map[uint64]wire.Envelope // calls sent to the peer, by sequence number
}

func (s *session) Peer() transport.Peer { return transport.Peer{Address: address(cmp.Or(s.name, "b"))} }
func (s *session) SaidGoodbye() bool    { return s.goodbye }
func (s *session) Dropped() bool        { return false }
func (s *session) AckSoon()             { s.stage.say("acknowledge soon") }
func (s *session) Find(seq uint64) (wire.Envelope, bool) {
	e, ok := s.sent[seq]
	return e, ok
}
func (s *session) Void(uint64) bool      { return false }
func (s *session) Post(e *wire.Envelope) { s.stage.say("post %d", e.Type) }

type shard struct {
	Shard
	stage *stage
}

func (s *shard) OpenBarriers(func(transport.Address) bool) { s.stage.say("open barriers") }
func (s *shard) Depart(_ func(transport.Address) bool, died bool, back []region.Returned) {
	s.stage.say("depart, died: %v, %d return, departs: %v", died, len(back), s.stage.Departs(address("b")))
}

func (s *shard) Flush(f region.Flush) {
	s.stage.say("flush of %s", f.Sender.Name)
	s.stage.flushes = append(s.stage.flushes, f)
}
func (s *shard) MoveStep(shardhost.Session, *wire.Envelope) bool { return false }
func (s *shard) Dismiss()                                        { s.stage.step("dismiss") }
func (s *shard) Owes() bool                                      { return s.stage.owes() }
func (s *shard) Needed() bool                                    { return s.stage.hosts }
func (s *shard) Holds() bool                                     { return s.stage.holds() }

func address(name string) transport.Address { return transport.Address{Name: name, Incarnation: 1} }

// TestLostProcess: calls that come back from a lost process run before calls that barriers hold. A
// call that the lost process may have run fails. A second report of the loss does nothing.
func TestLostProcess(t *testing.T) {
	s := newStage()
	c, id := s.calls.Open(0, 0)
	s.left = []stream.Unacknowledged{
		{Envelope: wire.Envelope{Type: wire.TypeCall, ID: 7, Node: transport.Peer{Address: address("c")}}, NotExecuted: true},
		{Envelope: wire.Envelope{Type: wire.TypeTell, Node: transport.Peer{Address: address("c")}}},
		{Envelope: wire.Envelope{Type: wire.TypeCall, ID: id}},
	}
	s.PeerGone(address("b"), 0, false)
	require.Equal(t, []string{
		fmt.Sprintf("count %d", Retried), "lost: forwarded to a process that is gone", "depart, died: true, 1 return, departs: true",
		"lost: sent to a process that is gone", "open barriers", "home gone",
	}, s.did)
	require.Equal(t, Result{Code: Lost, Lost: address("b")}, *c.Result())
	s.did = nil
	s.PeerGone(address("b"), 0, false)
	require.Empty(t, s.did)
}

// TestAnswersOfARemovedProcess: calls sent to a removed process fail, because their answers will
// not come. Calls sent to other processes do not fail, nor calls on lanes on which the removed
// process said goodbye, because it had answered or forwarded these calls.
func TestAnswersOfARemovedProcess(t *testing.T) {
	for _, c := range []struct {
		name    string
		session session
		lane    int
		fails   bool
	}{
		{"sent to it", session{}, AllLanes, true},
		{"sent to it, and it said goodbye", session{goodbye: true}, AllLanes, false},
		{"sent to another", session{name: "c"}, AllLanes, false},
		{"sent to it on a lane that ended", session{}, 0, false},
	} {
		s := newStage()
		c.session.stage = s
		_, id := s.calls.Open(0, 0)
		s.calls.Sent(id, &c.session, 1)
		s.PeerGone(address("b"), c.lane, false)
		require.Equal(t, c.fails, !s.calls.Waits(id), c.name)
	}
}

// TestCallsOnADroppedSession: a member that has dropped its side of a session may have run the
// calls sent on it, and does not answer them. These calls fail with that cause. Calls on other
// sessions go on, even with the same member on another lane. If another goroutine has replaced the
// session, all calls go on, because that goroutine has failed the lost calls.
func TestCallsOnADroppedSession(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		s := newStage()
		send := func(on *session) (*Call, uint64) {
			c, id := s.calls.Open(0, 0)
			s.calls.Sent(id, on, 1)
			return c, id
		}
		c, id := send(s.peer)
		_, lane := send(&session{stage: s})
		_, other := send(&session{stage: s, name: "c"})
		if !replaced {
			s.dropped = &Left{Session: s.peer}
		}
		require.NotNil(t, s.Replace(s.peer))
		require.Equal(t, replaced, s.calls.Waits(id))
		require.True(t, s.calls.Waits(lane))
		require.True(t, s.calls.Waits(other))
		if replaced {
			require.Empty(t, s.did)
			continue
		}
		require.Equal(t, Result{Code: Lost, Lost: address("b"), Text: WhyDropped}, *c.Result())
		require.Contains(t, s.did, "renewed b, lost 1")
	}
}

// TestCallThatIsSentAgain: if a removed process certainly did not run a call, the call is sent
// again, and does not fail with the other calls sent to that process.
func TestCallThatIsSentAgain(t *testing.T) {
	s := newStage()
	_, id := s.calls.Open(0, 0)
	s.calls.Sent(id, s.peer, 1)
	remains{s, &Left{Session: s.peer}}.Again(&wire.Envelope{ID: id})
	s.PeerGone(address("b"), AllLanes, false)
	require.True(t, s.calls.Waits(id))
}

// TestEnvelopesWithoutAShard: at a process without the shard, a Flush goes on to the next home, the
// state of a shard is refused, and other envelopes of a move are counted.
func TestEnvelopesWithoutAShard(t *testing.T) {
	s := newStage()
	s.hosts = false
	s.Receive(s.peer, 0, &wire.Envelope{Type: wire.TypeFlush, Node: transport.Peer{Address: address("c")}})
	s.Receive(s.peer, 0, &wire.Envelope{Type: wire.TypeFlush, Node: transport.Peer{Address: address("gone")}})
	s.Receive(s.peer, 0, &wire.Envelope{Type: wire.TypeInit})
	s.Receive(s.peer, 0, &wire.Envelope{Type: wire.TypeReady})
	s.Receive(s.peer, 0, &wire.Envelope{})
	ignored := fmt.Sprintf("count %d", Ignored)
	require.Equal(t, []string{
		"acknowledge soon", fmt.Sprintf("post %d", wire.TypeFlushed), "acknowledge soon",
		fmt.Sprintf("post %d", wire.TypeReject), ignored, ignored,
	}, s.did)
}

// TestFlushForAHomeThatIsGone: the shard learns that the home that a Flush names is gone.
func TestFlushForAHomeThatIsGone(t *testing.T) {
	s := newStage()
	s.parted = map[transport.Address]bool{address("gone"): true}
	for _, to := range []string{"c", "gone"} {
		s.Receive(s.peer, 0, &wire.Envelope{Type: wire.TypeFlush, Node: transport.Peer{Address: address(to)}})
	}
	s.Receive(s.peer, 0, &wire.Envelope{Type: wire.TypeFlush})
	var lost []bool
	for _, f := range s.flushes {
		lost = append(lost, f.Lost)
	}
	require.Equal(t, []bool{false, true, false}, lost)
}

// TestRefusal: the refusal of a call goes back on the session on which the call came. The refusal
// of a forwarded call goes to the call's sender. A refused tell that was forwarded is lost.
func TestRefusal(t *testing.T) {
	s := newStage()
	other := &session{stage: s}
	to, answer := s.Refuse(other, 0, &wire.Envelope{Type: wire.TypeCall, ID: 3}, 9, shardhost.Refusal{Code: wire.CodeMoved})
	require.Same(t, other, to)
	require.Equal(t, wire.TypeRefusal, answer.Type)
	require.Equal(t, uint64(9), answer.Seq)
	forwarded := wire.Envelope{Type: wire.TypeCall, ID: 3, Node: transport.Peer{Address: address("c")}}
	to, answer = s.Refuse(other, 0, &forwarded, 9, shardhost.Refusal{Code: wire.CodeMoved})
	require.Same(t, s.peer, to)
	require.Equal(t, wire.TypeAnswer, answer.Type)
	forwarded.Node.Address = address("gone")
	to, _ = s.Refuse(other, 0, &forwarded, 9, shardhost.Refusal{Code: wire.CodeMoved})
	require.Nil(t, to)
	forwarded.Type = wire.TypeTell
	s.did = nil
	to, answer = s.Refuse(other, 0, &forwarded, 9, shardhost.Refusal{Code: wire.CodeMoved})
	require.Nil(t, to)
	require.Nil(t, answer)
	require.Equal(t, []string{fmt.Sprintf("refused: %d", wire.CodeMoved), "lost: forwarded, and refused"}, s.did)
	s.Receive(s.peer, 0, &wire.Envelope{Type: wire.TypeRefusal, Code: wire.CodeOverloaded})
	require.Equal(t, "tell refused", s.did[len(s.did)-1])
	s.Receive(s.peer, 0, &wire.Envelope{Type: wire.TypeRefusal, Code: wire.CodeMoved})
	require.Equal(t, fmt.Sprintf("count %d", Ignored), s.did[len(s.did)-1])
}

// TestRefusedCall: the caller of a call that the peer refused gets an answer. If no caller waits
// for it, the call counts as a tell.
func TestRefusedCall(t *testing.T) {
	s := newStage()
	c, id := s.calls.Open(0, 0)
	s.Receive(s.peer, 0, &wire.Envelope{Type: wire.TypeRefusal, ID: id, Code: wire.CodeOverloaded, Text: []byte("full")})
	require.Equal(t, &Result{Code: wire.CodeOverloaded, Text: "full"}, c.Result())
	require.Empty(t, s.did)
	s.Receive(s.peer, 0, &wire.Envelope{Type: wire.TypeRefusal, ID: id, Code: wire.CodeOverloaded})
	require.Equal(t, []string{"tell refused"}, s.did)
}

// TestLeave: a process that has left waits for flushes, for acknowledgements, and for homes of the
// calls that it holds, but not longer than its patience, and in each step for flushes and homes not
// longer than DismissAfter.
func TestLeave(t *testing.T) {
	const tenth = DismissAfter / 10
	for name, c := range map[string]struct {
		owes, acks, holds, patience time.Duration // when each ends after the leave begins
		want                        []string
	}{
		"at once":  {0, 0, 0, time.Hour, []string{"0s deaf", "0s dismiss", "0s dismiss", "0s done"}},
		"in order": {tenth, 2 * tenth, 3 * tenth, time.Hour, []string{"300ms deaf", "300ms dismiss", "300ms dismiss", "300ms done"}},
		"never":    {time.Hour, time.Hour, time.Hour, 3 * DismissAfter, []string{"2s deaf", "3s dismiss", "3s dismiss", "3s done"}},
		"no acks":  {tenth, time.Hour, tenth, 2 * DismissAfter, []string{"1s deaf", "2s dismiss", "2s dismiss", "2s done"}},
		"no home":  {tenth, tenth, time.Hour, time.Hour, []string{"1s deaf", "2s dismiss", "2s dismiss", "2s done"}},
		"no flush": {time.Hour, tenth, tenth, time.Hour, []string{"1s deaf", "1s dismiss", "1s dismiss", "1s done"}},
		"no time":  {tenth, tenth, tenth, 0, []string{"0s deaf", "0s dismiss", "0s dismiss", "0s done"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage()
			var waited time.Duration
			s.after = func(d time.Duration, f func()) {
				waited += d
				f()
			}
			s.owes = func() bool { return waited < c.owes }
			s.holds = func() bool { return waited < c.holds }
			s.unacked = func() bool { return waited < c.acks }
			s.now = func() time.Duration { return waited }
			s.Leave(c.patience, func() { s.step("done") })
			require.Equal(t, c.want, s.did)
		})
	}
}

// TestPeerLeft: a member that left gracefully may say goodbye until ByeGrace has passed.
func TestPeerLeft(t *testing.T) {
	s := newStage()
	s.after = func(d time.Duration, f func()) {
		require.Equal(t, ByeGrace, d)
		require.Equal(t, []string{"b left"}, s.did)
		f()
	}
	s.PeerLeft(address("b"))
	require.True(t, s.closed)
}

// TestNeeds: a leaving process waits for its shards.
func TestNeeds(t *testing.T) {
	s := newStage()
	require.True(t, s.Needs())
	s.hosts = false
	require.False(t, s.Needs())
}

// TestNeedsHomesForTells: a leaving process waits until its tells have a home. If that home has
// left, the process waits until the home has acknowledged the tells or they have come back.
func TestNeedsHomesForTells(t *testing.T) {
	s := newStage()
	b := &home{name: "b"}
	n := &network{homes: map[transport.Address]*home{address("b"): b}}
	s.hosts, s.route, s.parted = false, &routing.Route{}, map[transport.Address]bool{}
	s.route.Init(n, []byte("K"), 1)
	require.False(t, s.Needs())
	s.route.Core.Hold(stream.Outgoing{Envelope: wire.Envelope{Type: wire.TypeCall, ID: 1}})
	require.False(t, s.Needs(), "a call's caller learns what became of it")
	s.route.Core.Hold(stream.Outgoing{Envelope: wire.Envelope{Type: wire.TypeTell}})
	require.True(t, s.Needs(), "a tell waits")
	s.route.Learn(address("b"), placement.MakeEpoch(1, 1), false)
	require.False(t, s.Needs(), "the tell is at its home")
	s.parted[address("b")] = true
	require.True(t, s.Needs(), "the home has left, perhaps before the tell came")
	b.acked = b.seq
	require.False(t, s.Needs())
	b.acked, b.departed = 0, true
	require.False(t, s.Needs(), "its unacknowledged calls have come back")
}

// A network is the Env of a route in a test. It has a home for each name.
type network struct {
	routing.Env
	homes map[transport.Address]*home
	asked int
}

func (n *network) Self() transport.Peer                 { return transport.Peer{Address: address("self")} }
func (n *network) Now() time.Time                       { return time.Unix(1, 0) }
func (n *network) Local() (routing.Local, bool)         { return nil, false }
func (n *network) Ask()                                 { n.asked++ }
func (n *network) Waits(uint64) bool                    { return true }
func (n *network) Sent(uint64, routing.Session, uint64) {}
func (n *network) Taken([]stream.Outgoing)              {}
func (n *network) Released([]stream.Outgoing)           {}

func (n *network) Known(a transport.Address) (routing.Session, bool) {
	h, ok := n.homes[a]
	return h, ok
}

func (n *network) Session(a transport.Address) (routing.Session, bool) {
	if n.homes[a] == nil {
		n.homes[a] = &home{name: a.Name}
	}
	return n.homes[a], true
}

// A home is a session of a route. It records the calls sent on it.
type home struct {
	routing.Session
	name     string
	seq      uint64
	acked    uint64
	departed bool
	calls    []uint64
}

func (h *home) Peer() transport.Peer       { return transport.Peer{Address: address(h.name)} }
func (h *home) Lock()                      {}
func (h *home) Unlock()                    {}
func (h *home) DepartedLocked() bool       { return h.departed }
func (h *home) HasDeparted() bool          { return h.departed }
func (h *home) AckedLocked() uint64        { return h.acked }
func (h *home) AwaitLocked(*routing.Route) {}
func (h *home) Flush()                     {}
func (h *home) AppendLocked(e *wire.Envelope) (uint64, error) {
	if e.Type == wire.TypeCall {
		h.calls = append(h.calls, e.ID)
	}
	h.seq++
	return h.seq, nil
}

// table returns a table of a term, with an entry for the shard of a route.
func table(t *testing.T, term, number uint32, home string, epoch placement.Epoch) *placement.Table {
	t.Helper()
	it, err := (*placement.Table)(nil).Apply(placement.Diff{
		Full: true, To: placement.Version{Term: placement.Term{Number: term}, Seq: uint64(number)},
		Entries: []placement.Entry{{ShardID: placement.ShardID{Kind: "K", Shard: 1}, Home: address(home), Epoch: epoch}},
	})
	require.NoError(t, err)
	return it
}

// TestTableOfALaterTerm: a table that shows an older home than the known one is not followed,
// because the coordinator of a later term may have written it during a move.
func TestTableOfALaterTerm(t *testing.T) {
	s := newStage()
	n := &network{homes: map[transport.Address]*home{}}
	s.route = &routing.Route{}
	s.route.Init(n, []byte("K"), 1)
	s.hosts = false
	first := table(t, 1, 1, "b", placement.MakeEpoch(1, 3))
	s.Follow(nil, first, "K")
	require.True(t, s.route.LeadsTo(address("b")))
	s.route.Learn(address("c"), placement.MakeEpoch(1, 4), false) // b has refused a call
	later := table(t, 2, 1, "b", placement.MakeEpoch(1, 3))
	s.Follow(first, later, "K")
	require.True(t, s.route.LeadsTo(address("c")))
	s.Follow(later, table(t, 2, 2, "d", placement.MakeEpoch(2, 1)), "K")
	require.True(t, s.route.LeadsTo(address("d")))
}

// TestRefusedCallIsSentAgain: a call that its home refused because the shard has moved is sent to
// the home that the refusal names.
func TestRefusedCallIsSentAgain(t *testing.T) {
	s := newStage()
	n := &network{homes: map[transport.Address]*home{}}
	s.route = &routing.Route{}
	s.route.Init(n, []byte("K"), 1)
	s.route.Learn(address("b"), placement.MakeEpoch(1, 1), false)
	s.peer.sent = map[uint64]wire.Envelope{4: {Type: wire.TypeCall, Seq: 4, ID: 7}}
	s.Receive(s.peer, 0, &wire.Envelope{
		Type: wire.TypeRefusal, Code: wire.CodeMoved, Seq: 4,
		Node: transport.Peer{Address: address("c")}, Epoch: uint64(placement.MakeEpoch(1, 2)),
	})
	require.Contains(t, s.did, fmt.Sprintf("count %d", Retried))
	require.True(t, s.route.LeadsTo(address("c")))
	require.Equal(t, []uint64{7}, n.homes[address("c")].calls)
}

// TestAnotherLifeOfTheCluster: a process that joins a cluster founded again parts with all
// processes that are not members. Its calls go to no home of the former cluster, not even to a home
// to which a shard was about to move and which is a member again. They wait for a home that is
// asked for.
func TestAnotherLifeOfTheCluster(t *testing.T) {
	s := newStage()
	n := &network{homes: map[transport.Address]*home{}}
	s.route = &routing.Route{}
	s.route.Init(n, []byte("K"), 1)
	hold := func(id uint64) {
		s.route.Core.Hold(stream.Outgoing{Envelope: wire.Envelope{Type: wire.TypeCall, ID: id}})
	}
	hold(1)
	s.route.Learn(address("b"), placement.MakeEpoch(1, 1), false)
	require.Equal(t, []uint64{1}, n.homes[address("b")].calls)
	s.route.Learn(address("c"), placement.MakeEpoch(1, 2), false)
	require.Nil(t, s.route.Target(), "b has not acknowledged the call")
	hold(2)
	n.asked = 0
	s.BeginAnew(map[transport.Address]bool{address("c"): true})
	require.Contains(t, s.did, "part with b")
	require.NotContains(t, s.did, "part with c")
	require.Contains(t, s.did, "forgive c")
	require.NotContains(t, n.homes, address("c"), "a home of the life before")
	require.Nil(t, s.route.Target())
	require.Equal(t, 1, s.route.Core.Held())
	require.Positive(t, n.asked)
	s.route.Learn(address("c"), placement.MakeEpoch(1, 1), false)
	require.Equal(t, []uint64{2}, n.homes[address("c")].calls, "epochs count from the beginning")
}

package dataplane

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/call"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A stage is a process with one hosted shard and one session. It notes what the Plane does.
// Methods that a test does not expect are those of the nil interface, and panic.
type stage struct {
	Env
	Plane
	calls  pending.Table
	did    []string
	left   []call.Unacknowledged
	hosts  bool
	peer   *session
	closed bool
}

func newStage() *stage {
	s := &stage{hosts: true}
	s.peer = &session{stage: s}
	s.Init(s)
	s.calls.Init(func() pending.Caller { return sleeper{} })
	return s
}

func (s *stage) say(format string, args ...any) { s.did = append(s.did, fmt.Sprintf(format, args...)) }

func (s *stage) Self() transport.Peer               { return transport.Peer{Address: address("self")} }
func (s *stage) Calls() *pending.Table              { return &s.calls }
func (s *stage) Count(e Event)                      { s.say("count %d", e) }
func (s *stage) Lost(_ *wire.Envelope, how Loss)    { s.say("lost: %v", how) }
func (s *stage) EachShard(_ int, f func(Shard))     { f(&shard{stage: s}) }
func (s *stage) Shard([]byte, uint32) (Shard, bool) { return &shard{stage: s}, s.hosts }
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

type sleeper struct{}

func (sleeper) Wake() {}

type session struct {
	Session
	stage *stage
}

func (s *session) Peer() transport.Peer              { return transport.Peer{Address: address("b")} }
func (s *session) SaidGoodbye() bool                 { return false }
func (s *session) Dropped() bool                     { return false }
func (s *session) AckSoon()                          { s.stage.say("acknowledge soon") }
func (s *session) Find(uint64) (wire.Envelope, bool) { return wire.Envelope{}, false }
func (s *session) Void(uint64) bool                  { return false }
func (s *session) Post(e *wire.Envelope)             { s.stage.say("post %d", e.Type) }

type shard struct {
	Shard
	stage *stage
}

func (s *shard) Forget(func(transport.Address) bool)       { s.stage.say("forget") }
func (s *shard) OpenBarriers(func(transport.Address) bool) { s.stage.say("open barriers") }
func (s *shard) Return(_ *shardhost.Call, died bool)       { s.stage.say("return, died: %v", died) }

func (s *shard) Flush(f region.Flush)                            { s.stage.say("flush of %s", f.Sender.Name) }
func (s *shard) MoveStep(shardhost.Session, *wire.Envelope) bool { return false }
func (s *shard) Holds() bool                                     { return true }

func address(name string) transport.Address { return transport.Address{Name: name, Incarnation: 1} }

// TestLostProcess: calls that come back from a lost process run ahead of calls that barriers
// hold, a call that it may have run fails, and a second report does nothing.
func TestLostProcess(t *testing.T) {
	s := newStage()
	c, id := s.calls.Open(0, 0)
	s.left = []call.Unacknowledged{
		{Envelope: wire.Envelope{Type: wire.TypeCall, ID: 7, Node: transport.Peer{Address: address("c")}}, NotExecuted: true},
		{Envelope: wire.Envelope{Type: wire.TypeTell, Node: transport.Peer{Address: address("c")}}},
		{Envelope: wire.Envelope{Type: wire.TypeCall, ID: id}},
	}
	s.PeerGone(address("b"), 0, false)
	require.Equal(t, []string{
		"forget", fmt.Sprintf("count %d", Retried), "return, died: true", "lost: forwarded to a process that is gone",
		"lost: sent to a process that is gone", "open barriers",
	}, s.did)
	require.Equal(t, pending.Result{Code: pending.Lost, Lost: address("b")}, *c.Result())
	s.did = nil
	s.PeerGone(address("b"), 0, false)
	require.Empty(t, s.did)
}

// TestEnvelopesWithoutAShard: a Flush goes on to the next home, the state of a shard is refused,
// and every other step of a move is counted.
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

// TestRefusal: the answer to a refused call goes back on the session that it came on; that to
// one that was forwarded goes to its sender, and a tell that was forwarded is lost.
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
	require.Equal(t, wire.TypeReply, answer.Type)
	forwarded.Node.Address = address("gone")
	to, _ = s.Refuse(other, 0, &forwarded, 9, shardhost.Refusal{Code: wire.CodeMoved})
	require.Nil(t, to)
	forwarded.Type = wire.TypeTell
	s.did = nil
	to, answer = s.Refuse(other, 0, &forwarded, 9, shardhost.Refusal{Code: wire.CodeMoved})
	require.Nil(t, to)
	require.Nil(t, answer)
	require.Equal(t, []string{fmt.Sprintf("count %d", Refused), "lost: forwarded, and refused"}, s.did)
	s.Receive(s.peer, 0, &wire.Envelope{Type: wire.TypeRefusal, Code: wire.CodeOverloaded})
	require.Equal(t, "tell refused", s.did[len(s.did)-1])
	s.Receive(s.peer, 0, &wire.Envelope{Type: wire.TypeRefusal, Code: wire.CodeMoved})
	require.Equal(t, fmt.Sprintf("count %d", Ignored), s.did[len(s.did)-1])
}

// TestDepartureWaitsForATable: a process that has left waits for homes of the calls that it
// holds, but not for long.
func TestDepartureWaitsForATable(t *testing.T) {
	s := newStage()
	require.True(t, s.MustWait(0))
	require.False(t, s.MustWait(DismissAfter))
}

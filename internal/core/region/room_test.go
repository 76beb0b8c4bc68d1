package region

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestRoom: each bound refuses the call that would exceed it, and Call.Full names the bound. A call
// that leaves makes room again.
func TestRoom(t *testing.T) {
	open := func(s *Shard) { s.Place(node("a"), placement.MakeEpoch(1, 1), false, 0, time.Unix(1000, 0)) }
	closed := func(*Shard) {}
	for _, tt := range []struct {
		name   string
		limits Limits
		place  func(*Shard)
		want   Bound
		taken  int
	}{
		{"mailbox", Limits{Mailbox: 3, Waiting: 9}, open, MailboxCalls, 3},
		{"mailbox bytes", Limits{Mailbox: 9, Waiting: 9, MailboxBytes: 25}, open, MailboxBytes, 2},
		{"shard bytes, for a turn", Limits{Mailbox: 9, Waiting: 9, ShardBytes: 25}, open, ShardBytes, 2},
		{"node bytes, for a turn", Limits{Mailbox: 9, Waiting: 9, Budget: NewBudget(25)}, open, NodeBytes, 2},
		{"shard", Limits{Mailbox: 9, Waiting: 3}, closed, ShardCalls, 3},
		{"shard bytes", Limits{Mailbox: 9, Waiting: 9, ShardBytes: 25}, closed, ShardBytes, 2},
		{"node bytes", Limits{Mailbox: 9, Waiting: 9, Budget: NewBudget(25)}, closed, NodeBytes, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), tt.limits)
			tt.place(s)
			s.Begin("x", 0) // which has a turn from now on
			call := func() (*Call, Verdict) {
				c := &Call{Entity: "x", Size: 10, Sender: transport.Peer{Address: node("b")}, Epoch: placement.MakeEpoch(1, 1)}
				_, v := s.Deliver(c, 0, time.Unix(1000, 0))
				return c, v
			}
			var calls []*Call
			for range tt.taken {
				c, v := call()
				if v != Queued {
					t.Fatalf("call %d: %v, want queued", len(calls), v)
				}
				calls = append(calls, c)
			}
			for range 2 {
				if c, v := call(); v != Overloaded || c.Full != tt.want {
					t.Fatalf("one more: %v by bound %d, want overloaded by bound %d", v, c.Full, tt.want)
				}
			}
			if !s.Cancel(calls[0]) {
				t.Fatal("the first call does not wait")
			}
			if c, v := call(); v != Queued {
				t.Errorf("in the place of the first: %v by bound %d, want queued", v, c.Full)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBudgetIsShared: calls that wait in one shard leave less room to the other shards.
func TestBudgetIsShared(t *testing.T) {
	budget := NewBudget(100)
	var verdicts []string
	for i := range 3 {
		s := New(placement.ShardID{Kind: "K", Shard: uint32(i)}, node("a"), Limits{Mailbox: 9, Waiting: 9, Budget: budget})
		_, v := s.Deliver(&Call{Entity: "x", Size: 40, Epoch: placement.MakeEpoch(1, 1)}, 0, time.Unix(1000, 0))
		verdicts = append(verdicts, v.String())
	}
	if got, want := fmt.Sprint(verdicts), "[queued queued overloaded]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRoomIsTakenAnew: a call that was forwarded, came back and waits again takes room a second
// time, and gives it back once.
func TestRoomIsTakenAnew(t *testing.T) {
	now := time.Unix(1000, 0)
	budget := NewBudget(100)
	s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{Mailbox: 9, Waiting: 9, Budget: budget})
	c := &Call{Entity: "x", Size: 10, Sender: transport.Peer{Address: node("b")}, Epoch: placement.MakeEpoch(1, 1)}
	taken := func(when string, want int) {
		t.Helper()
		if s.Bytes() != want || budget.Used() != int64(want) {
			t.Errorf("%s: %d bytes in the shard, %d of the budget, want %d", when, s.Bytes(), budget.Used(), want)
		}
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	if _, v := s.Deliver(c, 0, now); v != Queued {
		t.Fatalf("the call is %v, want queued", v)
	}
	taken("while it waits", 10)
	fx := s.Place(node("c"), placement.MakeEpoch(1, 2), false, 0, now)
	if len(fx.Forward)+len(fx.Refuse) != 1 {
		t.Fatalf("%+v, want that the call goes on", fx)
	}
	taken("when it has gone on", 0)
	c.Epoch = placement.MakeEpoch(1, 3)
	s.Depart(func(transport.Address) bool { return false }, false, []Returned{{Call: c}}, 0, now)
	taken("while it waits again", 10)
	if !s.Cancel(c) {
		t.Fatal("the call does not wait")
	}
	taken("when it is withdrawn", 0)
}

// TestClientsLeaveRoom: the calls of all clients of one name take at most half of a budget, over
// all shards. Other clients and members have the rest, and calls that leave make room again.
func TestClientsLeaveRoom(t *testing.T) {
	budget := NewBudget(100)
	shards := []*Shard{}
	for i := range 2 {
		shards = append(shards, New(placement.ShardID{Kind: "K", Shard: uint32(i)}, node("a"), Limits{Mailbox: 9, Waiting: 9, Budget: budget}))
	}
	call := func(shard int, name string, incarnation uint64, client bool) (*Call, string) {
		sender := transport.Peer{Address: transport.Address{Name: name, Incarnation: incarnation}, Client: client}
		c := &Call{Entity: "x", Size: 20, Sender: sender, Epoch: placement.MakeEpoch(1, 1)}
		_, v := shards[shard].Deliver(c, 0, time.Unix(1000, 0))
		return c, fmt.Sprintf("%v by bound %d", v, c.Full)
	}
	const queued = "queued by bound 0"
	first, v := call(0, "evil", 1, true)
	require.Equal(t, queued, v)
	second, v := call(1, "evil", 2, true)
	require.Equal(t, queued, v)
	full := fmt.Sprintf("overloaded by bound %d", ClientBytes)
	for i := range 2 {
		_, v = call(i, "evil", 3, true)
		require.Equal(t, full, v)
	}
	other, v := call(0, "web", 1, true)
	require.Equal(t, queued, v)
	member, v := call(1, "evil", 9, false)
	require.Equal(t, queued, v, "a member of the same name")
	require.True(t, shards[0].Cancel(first))
	third, v := call(1, "evil", 1, true)
	require.Equal(t, queued, v, "in the place of the first")
	for i, c := range []*Call{second, other, member, third} {
		require.True(t, shards[0].Cancel(c) || shards[1].Cancel(c), i)
	}
	require.Zero(t, budget.Used())
	require.Empty(t, budget.clients)
}

// TestRefusedByTheNode: a client's call that the node's budget refuses takes nothing of the
// client's share.
func TestRefusedByTheNode(t *testing.T) {
	budget := NewBudget(100)
	budget.Force(90)
	s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{Mailbox: 9, Waiting: 9, Budget: budget})
	c := &Call{Entity: "x", Size: 20, Sender: transport.Peer{Address: node("c"), Client: true}, Epoch: placement.MakeEpoch(1, 1)}
	_, v := s.Deliver(c, 0, time.Unix(1000, 0))
	require.Equal(t, Overloaded, v)
	require.Equal(t, NodeBytes, c.Full)
	require.Empty(t, budget.clients)
}

// TestGatewayCallersPay: the calls that gateways make for one caller take at most half of a budget.
// Calls of a client of that name, and of other callers, count separately.
func TestGatewayCallersPay(t *testing.T) {
	budget := NewBudget(100)
	s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{Mailbox: 9, Waiting: 9, Budget: budget})
	call := func(gateway string, client bool) (*Call, Verdict) {
		c := &Call{
			Entity: "x", Size: 20, Sender: transport.Peer{Address: node("evil"), Client: client}, Gateway: gateway,
			Epoch: placement.MakeEpoch(1, 1),
		}
		_, v := s.Deliver(c, 0, time.Unix(1000, 0))
		return c, v
	}
	var queued []*Call
	for _, tt := range []struct {
		gateway string
		client  bool
		want    Verdict
	}{{"evil", false, Queued}, {"evil", false, Queued}, {"evil", false, Overloaded}, {"", true, Queued}, {"shop", false, Queued}, {"", false, Queued}} {
		c, v := call(tt.gateway, tt.client)
		require.Equal(t, tt.want, v, tt)
		if v == Queued {
			queued = append(queued, c)
		} else {
			require.Equal(t, ClientBytes, c.Full)
		}
	}
	for _, c := range queued {
		require.True(t, s.Cancel(c))
	}
	require.Empty(t, budget.clients)
}

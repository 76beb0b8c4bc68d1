package node

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// knowing is a control plane that knows some members.
type knowing struct {
	ControlPlane
	members []transport.Address
}

func (k knowing) Knows(a transport.Address) bool { return slices.Contains(k.members, a) }

// TestClientEnvelopes: which types of envelopes a client may send to a member. All others are
// counted, and have no effect.
func TestClientEnvelopes(t *testing.T) {
	const laterType = wire.TypeReject + 1
	address := func(name string, c identity.Class) transport.Address {
		return transport.Address{Name: name, Incarnation: identity.Mark(c, 1)}
	}
	member := transport.Peer{Address: address("b", identity.Member)}
	removed := transport.Peer{Address: address("r", identity.Member)}
	left := transport.Peer{Address: address("l", identity.Member)}
	stranger := transport.Peer{Address: address("z", identity.Member)}
	client := transport.Peer{Address: address("c", identity.Client), Client: true}
	victim := transport.Peer{Address: address("v", identity.Client), Client: true}
	reader := transport.Peer{Address: address("o", identity.Reader), Client: true}
	commander := transport.Peer{Address: address("o", identity.Operator), Client: true}
	for _, tt := range []struct {
		name string
		from transport.Peer
		e    wire.Envelope
		ok   bool
	}{
		{"a withdrawn call", client, wire.Envelope{}, true},
		{"a call", client, wire.Envelope{Type: wire.TypeCall, ID: 1}, true},
		{"a tell", client, wire.Envelope{Type: wire.TypeTell}, true},
		{"a call of a turn", client, wire.Envelope{Type: wire.TypeCall, ID: 1, Chain: []byte("x")}, false},
		{"a tell of a turn", client, wire.Envelope{Type: wire.TypeTell, Chain: []byte("x")}, false},
		{"a call of a member", client, wire.Envelope{Type: wire.TypeCall, ID: 1, Node: member}, false},
		{"a tell of a member", client, wire.Envelope{Type: wire.TypeTell, Node: member}, false},
		{"a call of another client", client, wire.Envelope{Type: wire.TypeCall, ID: 1, Node: victim}, false},
		{"a call of its own, as if forwarded", client, wire.Envelope{Type: wire.TypeCall, ID: 1, Node: client}, false},
		{"a call with headers", client, wire.Envelope{Type: wire.TypeCall, ID: 1, Info: (&wire.Info{Headers: []wire.Header{{Key: "k", Value: "v"}}}).Append(nil)}, true},
		{"a call for a caller of a gateway", client, wire.Envelope{Type: wire.TypeCall, ID: 1, Info: (&wire.Info{Gateway: "php"}).Append(nil)}, false},
		{"a tell for a caller of a gateway", client, wire.Envelope{Type: wire.TypeTell, Info: (&wire.Info{Gateway: "php"}).Append(nil)}, false},
		{"a tell as if from a log", client, wire.Envelope{Type: wire.TypeCall, ID: 1, Info: (&wire.Info{Told: true}).Append(nil)}, false},
		{"a call that says what cannot be read", client, wire.Envelope{Type: wire.TypeCall, ID: 1, Info: []byte{0xff}}, false},
		{"an answer", client, wire.Envelope{Type: wire.TypeAnswer, ID: 1}, false},
		{"a refusal", client, wire.Envelope{Type: wire.TypeRefusal, ID: 1}, false},
		{"a cancellation", client, wire.Envelope{Type: wire.TypeCancel, ID: 1}, true},
		{"a Flush", client, wire.Envelope{Type: wire.TypeFlush}, true},
		{"a Flush for a member", client, wire.Envelope{Type: wire.TypeFlush, Node: member}, true},
		{"a Flush for a member that was removed", client, wire.Envelope{Type: wire.TypeFlush, Node: removed}, true},
		{"a Flush for a member that has left", client, wire.Envelope{Type: wire.TypeFlush, Node: left}, true},
		{"a Flush for no member", client, wire.Envelope{Type: wire.TypeFlush, Node: stranger}, false},
		{"a Flush for a client", client, wire.Envelope{Type: wire.TypeFlush, Node: victim}, false},
		{"a Flush for a member that listens as a client", client, wire.Envelope{Type: wire.TypeFlush, Node: transport.Peer{Address: member.Address, Client: true}}, false},
		{"a Flush for a client that listens as a member", client, wire.Envelope{Type: wire.TypeFlush, Node: transport.Peer{Address: victim.Address}}, false},
		{"a Flushed", client, wire.Envelope{Type: wire.TypeFlushed, Node: client, Via: member}, false},
		{"a Barrier by way of a member", client, wire.Envelope{Type: wire.TypeBarrier, Via: member}, true},
		{"a Barrier by way of a member that has left", client, wire.Envelope{Type: wire.TypeBarrier, Via: stranger}, true},
		{"a Barrier by way of a client", client, wire.Envelope{Type: wire.TypeBarrier, Via: victim}, false},
		{"a Barrier by way of a client that says it is a member", client, wire.Envelope{Type: wire.TypeBarrier, Via: transport.Peer{Address: victim.Address}}, false},
		{"a shard's state", client, wire.Envelope{Type: wire.TypeInit}, false},
		{"a shard is prepared", client, wire.Envelope{Type: wire.TypeReady}, false},
		{"a shard may run", client, wire.Envelope{Type: wire.TypeOpen}, false},
		{"a shard is rejected", client, wire.Envelope{Type: wire.TypeReject}, false},
		{"a type of a later version", client, wire.Envelope{Type: laterType}, false},
		{"a call of an operator who looks", reader, wire.Envelope{Type: wire.TypeCall, ID: 1}, false},
		{"a call of an operator who commands", commander, wire.Envelope{Type: wire.TypeCall, ID: 1}, false},
		{"nothing of an operator", commander, wire.Envelope{}, false},
		{"a forwarded call of a member", member, wire.Envelope{Type: wire.TypeCall, ID: 1, Node: victim, Chain: []byte("x")}, true},
		{"an answer of a member", member, wire.Envelope{Type: wire.TypeAnswer, ID: 1}, true},
		{"a shard's state of a member", member, wire.Envelope{Type: wire.TypeInit}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			drv := NewDriver(testConfig(), transport.Peer{Address: address("a", identity.Member)},
				knowing{members: []transport.Address{member.Address, victim.Address}})
			_, first := drv.Sessions.Remove(removed.Address, -1, false)
			require.True(t, first)
			drv.Sessions.MarkLeft(left.Address)
			l := newLane(drv, 0, nil)
			l.from = drv.Sessions.Session(tt.from, 0)
			const seq = 7
			require.True(t, l.envelope(&tt.e, seq), "the lane stays")
			require.EqualValues(t, seq, l.from.Handled.Load(), "what follows is not held up")
			for _, gone := range []transport.Peer{removed, stranger} {
				require.Nil(t, drv.Sessions.Known(gone.Address, 0), "no session begins with %s", gone.Name)
			}
			handled := uint64(0)
			for r, n := range drv.Counts.snapshot() {
				if r != MessageForbidden.String() && r != callRefused.String() {
					handled += n
				}
			}
			refused, answered := drv.Counts[MessageForbidden].Load(), drv.Counts[callRefused].Load()
			if tt.ok {
				require.Zero(t, refused)
				return
			}
			call := (tt.e.Type == wire.TypeCall || tt.e.Type == wire.TypeTell) && identity.Of(tt.from.Incarnation) == identity.Client
			require.Equal(t, call, answered == 1, "a client hears that its call is refused")
			require.EqualValues(t, 1, refused)
			require.Zero(t, handled, "a refused envelope has no other effect")
		})
	}
}

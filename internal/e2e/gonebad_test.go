package e2e

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/rights"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A badMember is a process that has the rights of a member, but is none. It sends any message, in
// any member's name.
type badMember struct {
	*role
	self transport.Peer
}

func newBadMember(t *testing.T, url string) *badMember {
	t.Helper()
	return &badMember{newRole(t, url, "_INBOX"), transport.Peer{Address: transport.Address{Name: "bad", Incarnation: 1}}}
}

// tell sends a control message to one member, to, in the name of another one, as.
func (b *badMember) tell(t *testing.T, as, to transport.Address, topic wire.ControlTopic, body []byte) {
	t.Helper()
	require.NoError(t, b.Publish(fmt.Sprintf("sh.e2e.m.%s.%016x.ctl", to.Name, to.Incarnation), wire.SealControl("e2e", transport.Peer{Address: as}, topic, body)))
}

// hear subscribes to subjects. It returns when the server has registered the subscription.
func (b *badMember) hear(t *testing.T, subject string) *nats.Subscription {
	t.Helper()
	sub, err := b.SubscribeSync(subject)
	require.NoError(t, err)
	require.NoError(t, b.Flush())
	return sub
}

// awaitCall waits for a frame with a call of the entity, and returns the subject, the header and the call.
func awaitCall(t *testing.T, sub *nats.Subscription, entity string) (subject string, h wire.FrameHeader, call wire.Envelope) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		m, err := sub.NextMsgWithContext(ctx)
		require.NoError(t, err, "no frame with a call of %s", entity)
		if strings.HasSuffix(m.Subject, ".ctl") {
			continue
		}
		var r wire.FrameReader
		h, rest, err := r.Header(m.Data)
		require.NoError(t, err)
		for range h.Count {
			var e wire.Envelope
			rest, _, err = wire.NextEnvelope(rest, &e)
			require.NoError(t, err)
			if e.Type == wire.TypeCall && string(e.Entity) == entity {
				return m.Subject, h, e
			}
		}
	}
}

// forgedBalance is the balance in a forged answer to Account.Add.
const forgedBalance = 999

// forge sends an answer to a call of Add. The answer's sequence number follows the last envelope
// that the caller has acknowledged in h.
func (b *badMember) forge(t *testing.T, subject string, as transport.Peer, call wire.Envelope, h wire.FrameHeader) {
	t.Helper()
	answer := &wire.Envelope{Type: wire.TypeAnswer, ID: call.ID, Payload: []byte{8, forgedBalance&0x7f | 0x80, forgedBalance >> 7}}
	forged := wire.FrameHeader{Version: wire.FrameVersion, From: as, Seq: h.Ack + 1, Count: 1, Window: 1 << 20, Session: h.Session}
	require.NoError(t, b.Publish(subject, wire.AppendEnvelope(wire.AppendFrameHeader(nil, &forged), answer)))
}

// TestGoneBadInAccount: a member's rights include every inbox of the account and, with the rights
// of a store, the messages of every stream. They include neither other clusters nor the deletion of
// streams.
func TestGoneBadInAccount(t *testing.T) {
	all := rights.Rights{Publish: []string{">"}, Subscribe: []string{">"}}
	url := leastPrivilege(t, map[string]rights.Rights{"worker": rights.Worker("e2e", "bank"), "other": all})
	other := newRole(t, url("other"), "_INBOX")
	js, err := other.JetStream()
	require.NoError(t, err)
	_, err = js.AddStream(&nats.StreamConfig{Name: "orders", Subjects: []string{"orders.>"}})
	require.NoError(t, err)
	_, err = js.Publish("orders.1", []byte("x"))
	require.NoError(t, err)
	inbox, err := other.SubscribeSync("_INBOX.other.1")
	require.NoError(t, err)
	require.NoError(t, other.Flush())

	bad := newRole(t, url("worker"), "_INBOX")
	require.NoError(t, bad.Publish("_INBOX.other.1", []byte("forged")))
	m, err := inbox.NextMsg(10 * time.Second)
	require.NoError(t, err)
	require.Equal(t, "forged", string(m.Data))
	answer, err := bad.Request("$JS.API.STREAM.PURGE.orders", nil, 10*time.Second)
	require.NoError(t, err)
	require.Contains(t, string(answer.Data), `"purged":1`)
	bad.mayNot(t, []string{
		"sh.other.m.all", "sh.other.c.web.4000000000000001.any", "sh.other.r.c.web.4000000000000001.0.f", "sh.e2e.r.m.a.4000000000000001.u",
		"sh.e2e.c.web.4000000000000001.any", "sh.e2e.o.ann.do.c000000000000001.any", "orders.1", "$JS.API.STREAM.DELETE.orders", "$JS.API.STREAM.UPDATE.orders",
	}, []string{"sh.other.>", "orders.>", "$JS.API.>", ">"})
}

// TestGoneBadTable: a member accepts a table of a higher term that is sent in a member's name. It
// then sends a shard's calls to the process that the table names, and accepts the answers of that
// process.
func TestGoneBadTable(t *testing.T) {
	url := leastPrivilege(t, map[string]rights.Rights{"worker": rights.Worker("e2e", "")})
	workers := newCluster(t, url("worker"))
	a, b := workers.start("a"), workers.startEmpty("b") // b hosts nothing, so a has all shards
	home, victim := addressOf(t, a, "a"), addressOf(t, a, "b")
	alice := fixture.NewAccountClient(b).Ref("alice")
	_, err := alice.Add(t.Context(), 5)
	require.NoError(t, err)

	bad := newBadMember(t, url("worker"))
	calls := bad.hear(t, fmt.Sprintf("sh.e2e.m.bad.%016x.>", bad.self.Incarnation))
	term := placement.Term{Number: 1 << 20, Incarnation: home.Incarnation}
	table, err := coordinator.Encode(coordinator.Table{Parts: 1, Diff: placement.Diff{
		To: placement.Version{Term: term, Seq: 1}, Full: true, Entries: []placement.Entry{{
			ShardID: placement.ShardID{Kind: "Account", Shard: placement.ShardOf(region.Hash("alice"), placement.DefaultShards)},
			Home:    bad.self.Address, Epoch: placement.MakeEpoch(term.Number, 1),
		}},
	}})
	require.NoError(t, err)
	bad.tell(t, home, victim, wire.ControlTopic_CONTROL_TOPIC_COORDINATOR, table)

	toVictim := fmt.Sprintf("sh.e2e.m.b.%016x.0", victim.Incarnation)
	believed := make(chan bool, 1)
	go func() {
		got := int64(0)
		for got != forgedBalance && t.Context().Err() == nil {
			got, _ = alice.Add(t.Context(), 1)
		}
		believed <- got == forgedBalance
	}()
	_, h, call := awaitCall(t, calls, "alice")
	bad.forge(t, toVictim, bad.self, call, h)
	select {
	case ok := <-believed:
		require.True(t, ok)
	case <-time.After(10 * time.Second):
		t.Fatal("no call got the forged answer")
	}
}

// TestGoneBadAnswer: a process with the rights of a member answers a client's call before the
// entity's home does.
func TestGoneBadAnswer(t *testing.T) {
	url := leastPrivilege(t, map[string]rights.Rights{"worker": rights.Worker("e2e", ""), "web": rights.Client("e2e", "web")})
	workers := newCluster(t, url("worker"))
	probe := &fixture.Probe{Entered: make(chan string, 1), Release: make(chan struct{})}
	a := shard.New(workers.config("a"))
	t.Cleanup(func() { _ = a.Close() })
	require.NoError(t, fixture.HostAccount(a, func() *fixture.Account { return &fixture.Account{Probe: probe} }))
	workers.run(a)
	home := transport.Peer{Address: addressOf(t, a, "a")}
	alice := fixture.NewAccountClient(newCluster(t, url("web")).dial("web")).Ref("alice")
	bad := newBadMember(t, url("worker"))
	calls := bad.hear(t, "sh.e2e.c.web.>")

	held := make(chan error, 1)
	go func() { held <- alice.Hold(t.Context()) }()
	<-probe.Entered // alice's turn waits, so alice answers no call
	awaitCall(t, calls, "alice")
	got := make(chan int64, 1)
	go func() {
		balance, err := alice.Add(t.Context(), 1)
		require.NoError(t, err)
		got <- balance
	}()
	subject, h, call := awaitCall(t, calls, "alice")
	words := strings.Split(subject, ".")
	web, lane := strings.Join(words[3:5], "."), words[len(words)-1]
	bad.forge(t, fmt.Sprintf("sh.e2e.r.c.%s.%s.f", web, lane), home, call, h)
	require.Equal(t, int64(forgedBalance), <-got)
	close(probe.Release)
	<-held
	require.NoError(t, a.Err())
}

// TestGoneBadDown: gossip in another member's name that marks a member as Down ends that member,
// and the others accept the gossip. An operator's command from a member is refused.
func TestGoneBadDown(t *testing.T) {
	t.Parallel()
	url := leastPrivilege(t, map[string]rights.Rights{"worker": rights.Worker("e2e", "")})
	bad := newBadMember(t, url("worker"))
	all := bad.hear(t, "sh.e2e.m.>")
	workers := newCluster(t, url("worker"))
	a, b, c := workers.start("a"), workers.start("b"), workers.start("c")
	home, other, victim := addressOf(t, a, "a"), addressOf(t, a, "b"), addressOf(t, a, "c")
	await(t.Context(), t, "all are up", func() bool {
		return !slices.ContainsFunc(a.Cluster().Members, func(m shard.Member) bool { return m.Status != membership.Up })
	})

	down, err := operator.Encode(1, &operator.Request{Command: operator.Down, Node: other, Force: true}, nil)
	require.NoError(t, err)
	bad.tell(t, home, other, wire.ControlTopic_CONTROL_TOPIC_ADMIN, down)
	await(t.Context(), t, "the command is counted", func() bool { return b.Counters()["forbidden message"] == 1 })
	require.NoError(t, b.Err())

	var latest *gossip.State
	for latest == nil {
		m, err := all.NextMsg(10 * time.Second)
		require.NoError(t, err, "no gossip with all members up")
		_, topic, body, err := wire.OpenControl("e2e", m.Data)
		if err != nil || topic != wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP {
			continue
		}
		msg, err := membership.Decode(bytes.Clone(body))
		require.NoError(t, err)
		if g, ok := msg.(message.Gossip); ok && len(g.State.Members) == 3 {
			if m, ok := g.State.Member(victim); ok && m.Status == gossip.Up {
				latest = g.State
			}
		}
	}
	lie := latest.ChangedBy(home, func(g *gossip.State) {
		m, _ := g.Member(victim)
		m.Status = gossip.Down
		g.SetMember(m)
	})
	body, err := membership.Encode(message.Gossip{Target: message.TargetOf(other), State: lie})
	require.NoError(t, err)
	bad.tell(t, home, other, wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, body)
	select {
	case <-c.Done():
		require.ErrorIs(t, c.Err(), shard.ErrDowned)
	case <-time.After(10 * time.Second):
		t.Fatal("the member that is down lives")
	}
	await(t.Context(), t, "the rest has removed it", func() bool { return len(a.Cluster().Members) == 2 && len(b.Cluster().Members) == 2 })
}

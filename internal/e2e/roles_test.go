package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/internal/wire/rights"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// A role is a connection to the server with the rights of one user.
type role struct {
	*nats.Conn
	denied chan error
}

func newRole(t *testing.T, url, inbox string) *role {
	t.Helper()
	r := &role{denied: make(chan error, 100)}
	nc, err := nats.Connect(url, nats.CustomInboxPrefix(inbox),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { r.denied <- err }))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	r.Conn = nc
	return r
}

// mayNot fails the test unless the server denies each subject.
func (r *role) mayNot(t *testing.T, publish, subscribe []string) {
	t.Helper()
	wait := func(what string) {
		select {
		case err := <-r.denied:
			require.ErrorIs(t, err, nats.ErrPermissionViolation, what)
		case <-time.After(10 * time.Second):
			t.Fatalf("%s is not denied", what)
		}
	}
	for _, subject := range publish {
		require.NoError(t, r.Publish(subject, []byte("x")))
		wait("to publish to " + subject)
	}
	for _, subject := range subscribe {
		_, err := r.SubscribeSync(subject)
		require.NoError(t, err)
		wait("to subscribe to " + subject)
	}
}

// addressOf returns the address of a member.
func addressOf(t *testing.T, n *shard.Node, name string) (a transport.Address) {
	t.Helper()
	await(t.Context(), t, name+" is a member", func() bool {
		for _, m := range n.Cluster().Members {
			if m.Name == name {
				a = m.Address
			}
		}
		return !a.IsZero()
	})
	return a
}

// TestHostileCaller: a caller of the gateway can call what its subjects name, and can do nothing
// else.
func TestHostileCaller(t *testing.T) {
	php := rights.Gateway("e2e", "php")
	php.Publish = []string{"sh.e2e.g.php.Account.Get.>"}
	url := leastPrivilege(t, map[string]rights.Rights{"worker": rights.Worker("e2e", ""), "php": php})
	workers := newCluster(t, url("worker"))
	config := workers.config("a")
	config.Gateway = true
	a := workers.host(config)
	workers.run(a)
	at := fmt.Sprintf("a.%016x", addressOf(t, a, "a").Incarnation)

	caller := newRole(t, url("php"), "_INBOX.php")
	answer, err := caller.Request("sh.e2e.g.php.Account.Get.alice", nil, 10*time.Second)
	require.NoError(t, err)
	require.JSONEq(t, `{"result1":0}`, string(answer.Data))
	caller.mayNot(t, []string{
		"sh.e2e.g.php.Account.Add.alice", "sh.e2e.g.shop.Account.Get.alice", "sh.e2e.g.any.Account.Get.alice",
		"sh.e2e.m." + at + ".ctl", "sh.e2e.m.all", "sh.e2e.c.php.4000000000000001." + at + ".ctl",
		"sh.e2e.o.php.do.c000000000000001." + at, "_INBOX.shop.1",
	}, []string{"sh.e2e.g.>", "_INBOX.>", "_INBOX.shop.>", "sh.e2e.r.>"})
	require.NoError(t, a.Err())
}

// TestHostileOperator: an operator can command only in its own name. It cannot call entities, send
// gossip or read answers to others. A reader cannot command at all.
func TestHostileOperator(t *testing.T) {
	url := leastPrivilege(t, map[string]rights.Rights{
		"worker": rights.Worker("e2e", ""), "ann": rights.Operator("e2e", "ann"), "bob": rights.Reader("e2e", "bob"),
	})
	workers := newCluster(t, url("worker"))
	a, b := workers.start("a"), workers.start("b")
	home, other := addressOf(t, a, "a"), addressOf(t, a, "b")
	at := fmt.Sprintf("a.%016x", home.Incarnation)
	down, err := operator.Encode(1, &operator.Request{Command: operator.Down, Node: other, Force: true}, nil)
	require.NoError(t, err)
	gossip, err := membership.Encode(message.Removal{Target: uint32(other.Incarnation)})
	require.NoError(t, err)

	ann, bob := newRole(t, url("ann"), "_INBOX.ann"), newRole(t, url("bob"), "_INBOX.bob")
	others := []string{"sh.e2e.r.>", "sh.e2e.r.o.carl.>", "sh.e2e.r.c.>", "sh.e2e.m.>", "sh.e2e.c.>"}
	forbidden := []string{"sh.e2e.m." + at + ".ctl", "sh.e2e.m.all", "sh.e2e.c.ann.4000000000000001." + at + ".0", "sh.e2e.g.ann.Account.Get.alice"}
	ann.mayNot(t, append(forbidden, "sh.e2e.o.bob.do.c000000000000001."+at), append(others, "sh.e2e.r.o.bob.>"))
	bob.mayNot(t, append(forbidden, "sh.e2e.o.bob.do.c000000000000001."+at), append(others, "sh.e2e.r.o.ann.>"))

	// Each user sends messages that its NATS rights allow but members must refuse: gossip, and from
	// a reader a command.
	const rounds = 20
	looks := transport.Peer{Address: transport.Address{Name: "bob", Incarnation: identity.Mark(identity.Reader, 1)}, Client: true}
	does := transport.Peer{Address: transport.Address{Name: "ann", Incarnation: identity.Mark(identity.Operator, 1)}, Client: true}
	for range rounds {
		require.NoError(t, bob.Publish(fmt.Sprintf("sh.e2e.o.bob.get.%016x.%s", looks.Incarnation, at),
			wire.SealControl("e2e", looks, wire.ControlTopic_CONTROL_TOPIC_ADMIN, down)))
		require.NoError(t, ann.Publish(fmt.Sprintf("sh.e2e.o.ann.do.%016x.%s", does.Incarnation, at),
			wire.SealControl("e2e", does, wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, gossip)))
	}
	await(t.Context(), t, "they are counted", func() bool { return a.Counters()["forbidden message"] == 2*rounds })
	require.NoError(t, errors.Join(a.Err(), b.Err()))
	require.Len(t, a.Cluster().Members, 2)
}

// TestMemberGoneBad: with the rights of a member a process can read the messages of clients, and
// end other members in any member's name. Nothing prevents that, as docs/security.md says.
func TestMemberGoneBad(t *testing.T) {
	url := leastPrivilege(t, map[string]rights.Rights{"worker": rights.Worker("e2e", ""), "web": rights.Client("e2e", "web")})
	workers := newCluster(t, url("worker"))
	a, b := workers.start("a"), workers.start("b")
	home, other := addressOf(t, a, "a"), addressOf(t, a, "b")
	bad := newRole(t, url("worker"), "_INBOX")
	frames, err := bad.SubscribeSync("sh.e2e.c.>")
	require.NoError(t, err)
	require.NoError(t, bad.Flush())

	_, err = fixture.NewAccountClient(newCluster(t, url("web")).dial("web")).Ref("secret-name").Add(t.Context(), 5)
	require.NoError(t, err)
	for heard := false; !heard; {
		m, err := frames.NextMsg(10 * time.Second)
		require.NoError(t, err, "no frame with the client's call")
		heard = bytes.Contains(m.Data, []byte("secret-name"))
	}

	removal, err := membership.Encode(message.Removal{Target: uint32(other.Incarnation)})
	require.NoError(t, err)
	require.NoError(t, bad.Publish(fmt.Sprintf("sh.e2e.m.b.%016x.ctl", other.Incarnation),
		wire.SealControl("e2e", transport.Peer{Address: home}, wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, removal)))
	select {
	case <-b.Done():
		require.ErrorIs(t, b.Err(), shard.ErrDowned)
	case <-time.After(10 * time.Second):
		t.Fatal("the member lives")
	}
}

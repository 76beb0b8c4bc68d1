package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/internal/wire/rights"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// TestHostileClient: with least privilege, a client cannot end, remove or command a member. It can
// neither read nor forge messages of other clients, and their calls go on.
func TestHostileClient(t *testing.T) {
	url := leastPrivilege(t, map[string]rights.Rights{
		"worker": rights.Worker("e2e", ""), "web": rights.Client("e2e", "web"), "evil": rights.Client("e2e", "evil"),
	})
	workers, clients := newCluster(t, url("worker")), newCluster(t, url("web"))
	a, b := workers.start("a"), workers.start("b")
	conn := clients.dial("web")
	account := fixture.NewAccountClient(conn).Ref("alice")
	if _, err := account.Add(t.Context(), 5); err != nil {
		t.Fatal(err)
	}

	denied := make(chan error, 1000)
	nc, err := nats.Connect(url("evil"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	addresses := map[string]transport.Peer{}
	await(t.Context(), t, "both are members", func() bool {
		for _, m := range a.Cluster().Members {
			addresses[m.Name] = transport.Peer{Address: m.Address}
		}
		return len(addresses) == 2
	})
	self, other := addresses["a"], addresses["b"]
	member := transport.Peer{Address: transport.Address{Name: "z", Incarnation: 1}}
	evil := transport.Peer{Address: transport.Address{Name: "evil", Incarnation: identity.Mark(identity.Client, 1)}, Client: true}
	at := fmt.Sprintf("%s.%016x.ctl", self.Name, self.Incarnation)
	gossip, err := membership.Encode(message.Alive{Founder: member.Address, Size: 9})
	if err != nil {
		t.Fatal(err)
	}
	down, err := operator.Encode(1, &operator.Request{Command: operator.Down, Node: other.Address, Force: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	lies := map[string][]byte{}
	for _, from := range []transport.Peer{member, other, evil} {
		lies["gossip as "+from.Name] = wire.SealControl("e2e", from, wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, gossip)
		lies["down as "+from.Name] = wire.SealControl("e2e", from, wire.ControlTopic_CONTROL_TOPIC_ADMIN, down)
	}
	allowed := fmt.Sprintf("sh.e2e.c.evil.%016x.", evil.Incarnation)
	forbidden := []string{
		"sh.e2e.m.all", "sh.e2e.m." + at, "sh.e2e.c.web." + strings.Repeat("4", 16) + "." + at,
		fmt.Sprintf("sh.e2e.o.evil.do.c000000000000001.%s.%016x", self.Name, self.Incarnation),
		"sh.e2e.r.c.web." + strings.Repeat("4", 16) + ".0.f", "sh.e2e.r.m." + at + ".u", "sh.e2e.g.any.Account.Add.alice",
	}
	const rounds = 200
	for range rounds {
		for _, lie := range lies {
			for _, to := range []string{at, "any"} {
				if err := nc.Publish(allowed+to, lie); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, subject := range forbidden {
		if err := nc.Publish(subject, lies["gossip as z"]); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{"sh.e2e.>", "sh.e2e.r.c.web.>", "sh.e2e.m.>", "sh.e2e.c.>"} {
		forbidden = append(forbidden, subject)
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for range forbidden {
		select {
		case err := <-denied:
			if !strings.Contains(err.Error(), "ermissions") {
				t.Errorf("the attacker is told %v", err)
			}
		case <-t.Context().Done():
			t.Fatal("a forbidden subject is not denied")
		}
	}
	await(t.Context(), t, "the lies are counted", func() bool {
		refused := uint64(0)
		for _, n := range []map[string]uint64{a.Counters(), b.Counters()} {
			refused += n["foreign frame"] + n["forbidden message"] + n["client over quota"]
		}
		return refused == rounds*uint64(len(lies))*2
	})
	for _, n := range []interface{ Err() error }{a, b} {
		if err := n.Err(); err != nil {
			t.Errorf("a member has ended: %v", err)
		}
	}
	if n := len(a.Cluster().Members); n != 2 {
		t.Errorf("%d members, want 2", n)
	}
	if got, err := account.Add(t.Context(), 1); err != nil || got != 6 {
		t.Errorf("the other client's call: %d, %v, want 6", got, err)
	}
}

// TestHostileSiege runs the attack of the command hostile: a client and a caller of the gateway
// send all their lies at once to three processes, while another client calls. HOSTILE_MESSAGES is
// the number of messages of the attack, by default few. With many messages, the command's limits
// for slower calls and for memory are judged too; in a short attack these are noise. HOSTILE_RATE
// is the number of messages a second, by default as many as the server takes.
func TestHostileSiege(t *testing.T) {
	if testing.Short() {
		t.Skip("a siege takes half a minute")
	}
	s := hostile.Siege{Messages: 20_000, Callers: 4, Pause: 5 * time.Millisecond, Quiet: time.Second, Recovery: time.Second, Log: t.Output()}
	asked := os.Getenv("HOSTILE_MESSAGES")
	if asked != "" {
		n, err := strconv.Atoi(asked)
		require.NoError(t, err, "HOSTILE_MESSAGES")
		s.Messages, s.Callers, s.Quiet, s.Recovery = n, 16, 5*time.Second, 3*time.Minute
		if rate := os.Getenv("HOSTILE_RATE"); rate != "" {
			s.Rate, err = strconv.Atoi(rate)
			require.NoError(t, err, "HOSTILE_RATE")
		}
	}
	var out strings.Builder
	held, err := s.Run(t.Context(), &out)
	t.Logf("%d messages:\n%s", s.Messages, &out)
	require.NoError(t, err) // all members live, and are the former ones
	if asked != "" {
		require.True(t, held, "a figure misses its limit")
		return
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "MISS") && !strings.Contains(line, "p99 of the other") && !strings.Contains(line, "RSS") && !strings.Contains(line, "memory") {
			t.Error(line)
		}
	}
}

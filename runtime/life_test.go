package shard_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
	"github.com/shardgen/shardgen/transport/memory"
)

// journal keeps what is logged at Warn and above.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(line))
	return len(line), nil
}

func (j *journal) with(text string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

const followsAnother = "the cluster was founded again"

// keepJournals makes every process log into a journal of its own name.
func (c *cluster) keepJournals() func(name string) *journal {
	var mu sync.Mutex
	journals := map[string]*journal{}
	of := func(name string) *journal {
		mu.Lock()
		defer mu.Unlock()
		if journals[name] == nil {
			journals[name] = &journal{}
		}
		return journals[name]
	}
	tune := c.tune
	c.tune = func(cfg *shard.Config) {
		if tune != nil {
			tune(cfg)
		}
		cfg.Logger = of(cfg.Name).logger()
	}
	return of
}

// end ends all nodes: in order, or at once.
func (c *cluster) end(inOrder bool) {
	c.t.Helper()
	var ends sync.WaitGroup
	for _, n := range c.nodes {
		ends.Go(func() {
			if inOrder {
				assert.NoError(c.t, n.Shutdown(testContext(c.t)))
			} else {
				assert.NoError(c.t, n.Close())
			}
		})
	}
	ends.Wait()
	clear(c.nodes)
}

// inTheNextLife makes a call after all workers were restarted. Unless they ended in order, it
// repeats the call while the call is lost with a former worker.
func inTheNextLife(t *testing.T, inOrder bool, call func() error) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		err = call()
		return inOrder || !errors.Is(err, shard.ErrLost) || shard.OutcomeOf(err) != shard.Unknown
	}, testPatience, testTick)
	require.NoError(t, err)
}

// TestClientFollowsAnotherLife: all workers are restarted, several times. A client that stays goes
// on with the references that it has.
func TestClientFollowsAnotherLife(t *testing.T) {
	for _, inOrder := range []bool{true, false} {
		t.Run(map[bool]string{true: "in order", false: "at once"}[inOrder], func(t *testing.T) {
			t.Parallel()
			c := emptyCluster(t)
			journals := c.keepJournals()
			names := []string{"a", "b"}
			for _, n := range names {
				c.start(n)
			}
			conn := c.dial("client")
			refs := map[string]fixture.AccountRef{}
			for _, id := range []string{"alice", "bob", "carol", "dave"} {
				refs[id] = fixture.NewAccountClient(conn).Ref(id)
			}
			const rounds = 4
			for range rounds {
				for id, ref := range refs {
					var got int64
					inTheNextLife(t, inOrder, func() (err error) {
						got, err = ref.Add(testContext(t), 1)
						return err
					})
					require.EqualValues(t, 1, got, "%s lives for the first time in this cluster", id)
				}
				c.end(inOrder)
				for _, n := range names {
					c.start(n)
				}
			}
			for _, ref := range refs {
				inTheNextLife(t, inOrder, func() error {
					_, err := ref.Add(testContext(t), 1)
					return err
				})
			}
			require.Len(t, journals("client").with(followsAnother), rounds)
			for _, n := range names {
				require.Empty(t, journals(n).with("in vain"), "a worker is not told of a home of the life before")
			}
		})
	}
}

// TestSingletonAfterAnotherLife: a client's calls to a singleton go on after all workers were
// restarted.
func TestSingletonAfterAnotherLife(t *testing.T) {
	t.Parallel()
	c := newChiefs(t, "a", "b")
	chief := fixture.NewChiefClient(c.dial("client")).Ref()
	for range 4 {
		var n int64
		inTheNextLife(t, false, func() (err error) {
			n, _, err = chief.Next(testContext(t))
			return err
		})
		require.EqualValues(t, 1, n)
		c.end(false)
		c.start("a")
		c.start("b")
	}
}

// TestCallsAtTheEndOfALife: all members end, and a new cluster starts. A call whose turn had begun
// fails at once with outcome Unknown. Calls that had not begun run in the new cluster.
func TestCallsAtTheEndOfALife(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	conn := c.dial("client")
	accounts := fixture.NewAccountClient(conn)
	held := c.hold(testContext(t), accounts)
	c.broker.Cut(memory.Path{From: "a", To: "client"}) // no further acknowledgement arrives
	c.end(false)
	require.NoError(t, accounts.Tell("bob").Add(testContext(t), 5))
	added := make(chan error, 1)
	go func() {
		_, err := accounts.Ref("bob").Add(testContext(t), 1)
		added <- err
	}()
	c.broker.Mend(memory.Path{From: "a", To: "client"})
	c.start("a")
	requireCall(t, receive(t, held, "the call is given up"), shard.ErrLost, shard.Unknown)
	require.NoError(t, receive(t, added, "the call that waited is made"))
	require.Eventually(t, func() bool {
		got, err := accounts.Ref("bob").Get(testContext(t))
		return err == nil && got == 6
	}, testPatience, testTick)
	close(c.probe.Release)
}

// A ghost sends messages in the name of a process that has ended.
type ghost struct {
	t    *testing.T
	self transport.Peer
	link transport.Link
}

func (c *cluster) ghost(self transport.Address) *ghost {
	link, err := c.broker.Transport().Open(testContext(c.t), transport.Options{
		Cluster: "test", Self: self, Lanes: 4, OnState: func(transport.Channel, transport.State) {},
	})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = link.Close() })
	return &ghost{c.t, transport.Peer{Address: self}, link}
}

func (g *ghost) say(to transport.Peer, topic wire.ControlTopic, body []byte) {
	require.NoError(g.t, g.link.Send(transport.Control, to, 0, wire.SealControl("test", g.self, topic, body)))
}

// welcome sends a member's answer to a client's hello.
func (g *ghost) welcome(to transport.Peer, w *wire.GatewayWelcome) {
	body, err := proto.Marshal(&wire.Gateway{Welcome: w})
	require.NoError(g.t, err)
	g.say(to, wire.ControlTopic_CONTROL_TOPIC_GATEWAY, body)
}

// TestLateWordsOfTheLifeBefore: messages of members of the former cluster arrive after the client
// has followed the next cluster. The client never goes back.
func TestLateWordsOfTheLifeBefore(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	journals := c.keepJournals()
	before := c.start("a").Peer()
	conn := c.dial("client")
	ref := fixture.NewAccountClient(conn).Ref("bob")
	_, err := ref.Add(testContext(t), 1)
	require.NoError(t, err)
	c.end(false)
	c.start("a")
	_, err = ref.Add(testContext(t), 1)
	require.NoError(t, err)

	g := c.ghost(before.Address)
	old := &wire.GatewayNode{Name: before.Name, Incarnation: before.Incarnation}
	for hello := range uint64(64) {
		g.welcome(conn.Peer(), &wire.GatewayWelcome{
			Founder: old, Hello: hello, Digest: 1, Members: []*wire.GatewayNode{old},
			Lost: []*wire.GatewayNode{{Name: "a", Incarnation: c.nodes["a"].Peer().Incarnation}},
		})
	}
	term := placement.Term{Number: 99, Incarnation: before.Incarnation}
	entry := placement.Entry{ShardID: conn.ShardOf(accountKind, "bob"), Home: before.Address, Epoch: placement.MakeEpoch(99, 1)}
	for _, m := range []coordinator.Message{
		coordinator.TableStatus{Version: placement.Version{Term: term, Seq: 1}},
		coordinator.Table{Parts: 1, Diff: placement.Diff{
			To: placement.Version{Term: term, Seq: 1}, Full: true, Entries: []placement.Entry{entry},
		}},
	} {
		body, err := coordinator.Encode(m)
		require.NoError(t, err)
		g.say(conn.Peer(), wire.ControlTopic_CONTROL_TOPIC_COORDINATOR, body)
	}
	require.Eventually(t, func() bool { return conn.Counters()["ignored frame"] >= 66 }, testPatience, testTick)
	for range 3 {
		_, err = ref.Add(testContext(t), 1)
		require.NoError(t, err)
	}
	require.Len(t, journals("client").with(followsAnother), 1)
}

// TestClientGoesBackToACluster: a client follows a second cluster of the same name. When that one
// has ended, the client calls in the first cluster again.
func TestClientGoesBackToACluster(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	journals := c.keepJournals()
	a := c.start("a").Peer()
	conn := c.dial("client")
	ref := fixture.NewAccountClient(conn).Ref("bob")
	_, err := ref.Add(testContext(t), 1)
	require.NoError(t, err)

	// The ghost stands for a second cluster, of which a does not learn.
	other := transport.Address{Name: "z", Incarnation: 1}
	g := c.ghost(other)
	ctx, cancel := context.WithTimeout(testContext(t), testPatience)
	defer cancel()
	require.NoError(t, g.link.Serve(ctx, true))
	bye, err := proto.Marshal(&wire.Gateway{Bye: &wire.GatewayBye{}})
	require.NoError(t, err)
	c.ghost(transport.Address{Name: "none", Incarnation: 2}).say(conn.Peer(), wire.ControlTopic_CONTROL_TOPIC_GATEWAY, bye) // from an unknown process: changes nothing
	node := &wire.GatewayNode{Name: other.Name, Incarnation: other.Incarnation}
	as := &ghost{t, a, g.link} // a sends the client away
	go func() {                // ends with the link
		for {
			m, err := g.link.Receive(transport.Control)
			if err != nil {
				return
			}
			from, topic, body, err := wire.OpenControl("test", m.Payload)
			var msg wire.Gateway
			if err == nil && topic == wire.ControlTopic_CONTROL_TOPIC_GATEWAY && proto.Unmarshal(body, &msg) == nil && msg.GetHello() != nil {
				g.welcome(from, &wire.GatewayWelcome{
					Founder: node, Hello: msg.GetHello().GetSeq(), Digest: 1, Members: []*wire.GatewayNode{node},
				})
			}
		}
	}()
	require.Eventually(t, func() bool {
		as.say(conn.Peer(), wire.ControlTopic_CONTROL_TOPIC_GATEWAY, bye)
		return journals("client").with(followsAnother) != nil
	}, testPatience, 10*testTick)
	require.NoError(t, g.link.Close()) // the second cluster ends
	got, err := ref.Add(testContext(t), 1)
	require.NoError(t, err)
	require.EqualValues(t, 2, got)
	require.Len(t, journals("client").with(followsAnother), 2)
}

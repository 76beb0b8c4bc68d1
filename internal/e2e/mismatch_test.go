package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/store/memory"
)

// otherAccount is the fixture's type Account as it is in another version of its module, or in
// another module.
func otherAccount(pkg string, shards int) codegen.Host {
	return codegen.Host{
		Kind: codegen.Kind{
			Name: "Account", Package: pkg, Shards: shards, HashName: "xxh64",
			Methods: []string{"Get"},
		},
		New: func() any { return &fixture.Account{} },
		Dispatch: map[string]codegen.Method{
			"Get": func(_ context.Context, _ any, _, out []byte) ([]byte, error) { return out, nil },
		},
	}
}

const fixturePackage = "github.com/shardgen/shardgen/internal/test/fixture"

// TestMismatch starts a second member that is incompatible with the first one. The second member is
// refused, and the first one goes on.
func TestMismatch(t *testing.T) {
	tests := []struct {
		name   string
		change func(*shard.Config)
		host   *codegen.Host // nil: the same as the first member's
		want   []string
	}{
		{"lanes", func(c *shard.Config) { c.Lanes = 8 }, nil, []string{"Config.Lanes", "1", "8"}},
		{"store", func(c *shard.Config) { c.Store = memory.New().Client() }, nil, []string{`Config.Store is "`, `of second" at second and "nil" at first`}},
		{"leases", func(c *shard.Config) { c.Membership.CutAfter = 7 * time.Second }, nil, []string{"Membership.CutAfter", "6s", "7s"}},
		{"membership", func(c *shard.Config) { c.Membership.Table.Store = memory.New().Client() }, nil, []string{`membership is "table with Successors 3`, `and "gossip" at first`}},
		{"shards", func(*shard.Config) {}, new(otherAccount(fixturePackage, 64)), []string{"Account", "256", "64"}},
		{"package", func(*shard.Config) {}, new(otherAccount("example.com/bank", 256)), []string{"Account", fixturePackage, "example.com/bank"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, natsproc.Start(t).URL())
			c.start("first")
			config := c.config("second")
			tt.change(&config)
			var n *shard.Node
			if tt.host == nil {
				n = c.host(config)
			} else {
				n = shard.New(config)
				t.Cleanup(func() { _ = n.Close() })
				if err := n.Host(*tt.host); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), quick)
			defer cancel()
			err := n.Start(ctx)
			for _, want := range append(tt.want, "second", "first") {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("start: %v, want %q in it", err, want)
				}
			}
			if ctx.Err() != nil {
				t.Errorf("took more than %v", quick)
			}
			if _, err := fixture.NewAccountClient(c.dial("client")).Ref("x").Get(t.Context()); err != nil {
				t.Errorf("a call afterwards: %v", err)
			}
		})
	}
}

// TestMismatchedClient dials with another number of lanes, and calls a type with another number of
// shards. Both are refused with an error that names the values.
func TestMismatchedClient(t *testing.T) {
	c := newCluster(t, natsproc.Start(t).URL())
	c.start("first")
	config := c.config("client")
	config.Lanes = 2
	ctx, cancel := context.WithTimeout(t.Context(), quick)
	defer cancel()
	_, err := shard.Dial(ctx, config)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial: %v, want the refusal at once", err)
	}
	for _, want := range []string{"first", "Config.Lanes is 1 in the cluster and 2 in this process"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dial: %v, want %q in it", err, want)
		}
	}
	port := c.dial("other").ShardInvoker(otherAccount(fixturePackage, 64).Kind)
	ref := codegen.NewRef(port, "x", nil, shard.Timeout(300*time.Millisecond))
	_, err = ref.Begin(t.Context(), "Get")
	err = ref.Run(t.Context(), "Get", nil, err)
	for _, want := range []string{"Account", "64 shards here", "256 in the cluster"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("call: %v, want %q in it", err, want)
		}
	}
	if got := shard.OutcomeOf(err); got != shard.NotExecuted {
		t.Errorf("outcome of %v: %v, want %v", err, got, shard.NotExecuted)
	}
}

// TestOneName starts a second node with the name of a live node.
func TestOneName(t *testing.T) {
	c := newCluster(t, natsproc.Start(t).URL())
	c.start("twin")
	config := c.config("twin")
	config.Membership.JoinTimeout = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), quick)
	defer cancel()
	err := c.host(config).Start(ctx)
	if err == nil || strings.Count(err.Error(), "twin#") < 2 || !strings.Contains(err.Error(), "another name") ||
		!strings.Contains(err.Error(), "not admitted within 1s: the name is held by twin#") {
		t.Errorf("start: %v, want both nodes and a remedy in it", err)
	}
	if !strings.Contains(c.log.String(), "not admitted yet") {
		t.Errorf("nothing was logged of the name while it was waited for:\n%s", c.log)
	}
	if ctx.Err() != nil {
		t.Errorf("took more than %v", quick)
	}
	if _, err := fixture.NewAccountClient(c.dial("client")).Ref("x").Get(t.Context()); err != nil {
		t.Errorf("a call afterwards: %v", err)
	}
}

// TestForeignBytes sends random bytes to every subject of a cluster, and the cluster's own messages
// a second time. They are counted and logged, or ignored, and change nothing.
func TestForeignBytes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, natsproc.Start(t).URL())
	nc, err := nats.Connect(c.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	sub, err := nc.SubscribeSync("sh.e2e.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil { // the server knows the subscription
		t.Fatal(err)
	}
	node, conn := c.start("a"), c.dial("client")
	accounts := fixture.NewAccountClient(conn)
	const ids, adds = 40, 5
	add := func(want int64) {
		t.Helper()
		for i := range ids {
			if got, err := accounts.Ref(fmt.Sprint("account ", i)).Add(t.Context(), 1); err != nil || got != want {
				t.Errorf("add: %d, %v; want %d", got, err, want)
			}
		}
	}
	for i := range int64(adds) {
		add(i + 1)
	}
	heard := drain(t, sub)
	before := node.Counters()["foreign frame"]
	subjects := map[string]bool{}
	for _, m := range heard {
		if !strings.Contains(m.Subject, ".u.") && !strings.Contains(m.Subject, ".a.") { // the broker's own answers
			subjects[m.Subject] = true
		}
	}
	publish := func(subject string, b []byte) {
		t.Helper()
		if err := nc.Publish(subject, b); err != nil {
			t.Fatal(err)
		}
	}
	for subject := range subjects {
		for _, b := range [][]byte{nil, {0}, []byte("hello"), make([]byte, 4096), {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
			publish(subject, b)
		}
	}
	for _, m := range heard {
		publish(m.Subject, m.Data)
		publish(m.Subject, m.Data[:len(m.Data)/2])
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	await(t.Context(), t, "foreign bytes are counted and logged", func() bool {
		return node.Counters()["foreign frame"] >= before+uint64(len(subjects)) && strings.Contains(c.log.String(), "foreign bytes refused")
	})
	add(adds + 1)
	select {
	case <-node.Done():
		t.Errorf("the node ended: %v", node.Err())
	default:
	}
}

// drain returns the messages of a subscription until none arrives for a moment.
func drain(t *testing.T, sub *nats.Subscription) (heard []*nats.Msg) {
	t.Helper()
	for {
		m, err := sub.NextMsg(50 * time.Millisecond)
		if err != nil || len(heard) > 5000 {
			return heard
		}
		heard = append(heard, m)
	}
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// quick bounds the time until bad input is refused, on any machine.
const quick = 5 * time.Second

func TestBadConfig(t *testing.T) {
	server := natsproc.Start(t)
	good := shard.Config{Cluster: "bad-config", Name: "n", Transport: natstransport.New(server.URL())}
	stopped := natsproc.Start(t)
	if err := stopped.Kill(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*shard.Config)
		want   []string // parts of the error
	}{
		{"server out of reach", func(c *shard.Config) {
			c.Transport = natstransport.New(stopped.URL(), natstransport.ConnectTimeout(300*time.Millisecond))
		}, []string{stopped.URL(), "is a NATS server running there?"}},
		{
			"wrong scheme", func(c *shard.Config) { c.Transport = natstransport.New("http://127.0.0.1:4222") },
			[]string{`"http://127.0.0.1:4222"`, "want for example nats://127.0.0.1:4222"},
		},
		{"no URL", func(c *shard.Config) { c.Transport = natstransport.New("") }, []string{"open link: the URL of the NATS servers is empty (want for example nats://127.0.0.1:4222)"}},
		{"bad port", func(c *shard.Config) { c.Transport = natstransport.New("nats://localhost:port") }, []string{"want for example"}},
		{"no transport", func(c *shard.Config) { c.Transport = nil }, []string{"Transport is nil", "natstransport.New"}},
		{"no cluster", func(c *shard.Config) { c.Cluster = "" }, []string{"cluster name"}},
		{"cluster with a space", func(c *shard.Config) { c.Cluster = "my shop" }, []string{`cluster name "my shop"`, "want only A-Z a-z 0-9 _ -"}},
		{"cluster with a dot", func(c *shard.Config) { c.Cluster = "my.shop" }, []string{`cluster name "my.shop"`, "want only"}},
		{"cluster with a star", func(c *shard.Config) { c.Cluster = "*" }, []string{`cluster name "*"`, "want only"}},
		{"cluster with a wildcard", func(c *shard.Config) { c.Cluster = ">" }, []string{`cluster name ">"`, "want only"}},
		{"cluster in unicode", func(c *shard.Config) { c.Cluster = "läden" }, []string{`cluster name "läden"`, "want only"}},
		{"long cluster", func(c *shard.Config) { c.Cluster = strings.Repeat("x", 65) }, []string{"cluster name", "64"}},
		{"node with a dot", func(c *shard.Config) { c.Name = "host.local" }, []string{`node name "host.local"`, "want only"}},
		{"no lanes", func(c *shard.Config) { c.Lanes = -1 }, []string{"Lanes is -1: want 1 to 64"}},
		{"too many lanes", func(c *shard.Config) { c.Lanes = 65 }, []string{"Lanes is 65: want 1 to 64"}},
		{"short time-out", func(c *shard.Config) { c.Membership.JoinTimeout = time.Millisecond }, []string{"JoinTimeout is 1ms: want at least 1s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			config := good
			tt.change(&config)
			ctx, cancel := context.WithTimeout(t.Context(), quick)
			defer cancel()
			n := shard.New(config)
			defer func() { _ = n.Close() }()
			_, dialErr := shard.Dial(ctx, config)
			for what, err := range map[string]error{"start": n.Start(ctx), "dial": dialErr} {
				for _, want := range tt.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %v, want %q in it", what, err, want)
					}
				}
			}
			if ctx.Err() != nil {
				t.Errorf("took more than %v", quick)
			}
		})
	}
}

// TestHostileIDs calls entities whose ids have all characters with a meaning in NATS subjects.
// These entities work like any others, and each id names an entity of its own.
func TestHostileIDs(t *testing.T) {
	c := newCluster(t, natsproc.Start(t).URL())
	c.start("a")
	c.start("b")
	accounts := fixture.NewAccountClient(c.dial("client"))
	ids := []string{
		"a b", "a.b", "a..b", ".", "*", ">", "a.>", "$SYS.REQ", "=41", "A", "_INBOX.x", "日本語", "\x00", "\xff\xfe", "\r\n", "PUB x 1\r\n",
		" ", strings.Repeat("x", 1024), strings.Repeat("é", 512),
	}
	for round := range int64(3) {
		for _, id := range ids {
			got, err := accounts.Ref(id).Add(t.Context(), 1)
			if err != nil || got != round+1 {
				t.Errorf("add to %.20q: %d, %v; want %d", id, got, err, round+1)
			}
		}
	}
}

// bad is a call that cannot succeed.
type bad struct {
	name    string
	call    func(ctx context.Context, c shard.Caller) error
	is      error // the error that errors.Is must find; nil means any
	want    []string
	outcome shard.Outcome
	remote  bool // refused only if the entity lives at another node
}

var badCalls = []bad{
	{
		name: "empty id",
		call: func(ctx context.Context, c shard.Caller) error {
			_, err := fixture.NewAccountClient(c).Ref("").Get(ctx)
			return err
		},
		is: shard.ErrBadID, want: []string{"the id is empty", "want 1 to 1024 bytes"}, outcome: shard.NotExecuted,
	},
	{
		name: "id of 1025 bytes",
		call: func(ctx context.Context, c shard.Caller) error {
			_, err := fixture.NewAccountClient(c).Ref(strings.Repeat("x", 1025)).Get(ctx)
			return err
		},
		is: shard.ErrBadID, want: []string{"1025 bytes", "want 1 to 1024"}, outcome: shard.NotExecuted,
	},
	{
		name: "id of 10,000 bytes",
		call: func(ctx context.Context, c shard.Caller) error {
			_, err := fixture.NewAccountClient(c).Ref(strings.Repeat("x", 10_000)).Get(ctx)
			return err
		},
		is: shard.ErrBadID, want: []string{"10000 bytes", "want 1 to 1024"}, outcome: shard.NotExecuted,
	},
	{
		name: "tell to a bad id",
		call: func(ctx context.Context, c shard.Caller) error {
			return fixture.NewAccountClient(c).Tell("").Note(ctx, "x")
		},
		is: shard.ErrBadID, want: []string{"the id is empty"}, outcome: shard.NotExecuted,
	},
	{
		name: "arguments over the server's limit",
		call: func(ctx context.Context, c shard.Caller) error {
			_, err := fixture.NewAccountClient(c).Ref(remoteID).Echo(ctx, make([]byte, 2<<20))
			return err
		},
		is: shard.ErrTooLarge, want: []string{"at most"}, outcome: shard.NotExecuted, remote: true,
	},
	{
		name: "tell over the server's limit",
		call: func(ctx context.Context, c shard.Caller) error {
			return fixture.NewAccountClient(c).Tell(remoteID).Note(ctx, strings.Repeat("x", 2<<20))
		},
		is: shard.ErrTooLarge, want: []string{"at most"}, outcome: shard.NotExecuted, remote: true,
	},
	{
		name: "results over the server's limit",
		call: func(ctx context.Context, c shard.Caller) error {
			account := fixture.NewAccountClient(c).Ref(remoteID)
			for range 3 {
				if err := account.Note(ctx, strings.Repeat("x", 600<<10)); err != nil {
					return fmt.Errorf("prepare: %w", err)
				}
			}
			_, err := account.Lines(ctx)
			return err
		},
		is: shard.ErrTooLarge, want: []string{"at most"}, outcome: shard.Executed, remote: true,
	},
	{
		name: "type that nobody hosts",
		call: func(ctx context.Context, c shard.Caller) error {
			_, err := workload.NewTallyClient(c).Ref("x", shard.Timeout(300*time.Millisecond)).Report(ctx)
			return err
		},
		is: shard.ErrNoHost, want: []string{"call Tally/x.Report", "no member hosts", "start"}, outcome: shard.NotExecuted,
	},
	{
		name: "deadline past",
		call: func(ctx context.Context, c shard.Caller) error {
			ctx, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
			defer cancel()
			_, err := fixture.NewAccountClient(c).Ref("x").Add(ctx, 1)
			return err
		},
		is: context.DeadlineExceeded, want: []string{"call Account/x.Add"}, outcome: shard.NotExecuted,
	},
	{
		name: "canceled before",
		call: func(ctx context.Context, c shard.Caller) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return fixture.NewAccountClient(c).Tell("x").Note(ctx, "x")
		},
		is: context.Canceled, want: []string{"call Account/x.Note"}, outcome: shard.NotExecuted,
	},
	{
		name: "panic",
		call: func(ctx context.Context, c shard.Caller) error {
			return fixture.NewAccountClient(c).Ref("x").Panic(ctx, "oh no")
		},
		is: shard.ErrPanic, want: []string{"Account/x.Panic", "oh no"}, outcome: shard.Executed,
	},
}

// remoteID is the id of an entity that does not live at node "caller".
const remoteID = "far away"

// TestBadCalls makes each bad call from a client and from a member. Afterwards other calls succeed
// as before.
func TestBadCalls(t *testing.T) {
	c := newCluster(t, natsproc.Start(t).URL())
	c.start("host")
	member := c.startEmpty("caller") // it hosts nothing, so all entities are remote
	callers := map[string]shard.Caller{"outside": c.dial("client"), "member": member}
	for _, tt := range badCalls {
		for where, caller := range callers {
			t.Run(tt.name+" from "+where, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), quick)
				defer cancel()
				err := tt.call(ctx, caller)
				tt.check(t, err)
				if ctx.Err() != nil {
					t.Errorf("took more than %v", quick)
				}
				if n, err := fixture.NewAccountClient(caller).Ref("afterwards").Get(t.Context()); err != nil || n != 0 {
					t.Errorf("a call afterwards: %d, %v", n, err)
				}
			})
		}
	}
	if n, err := fixture.NewAccountClient(member).Ref("x").Get(t.Context()); err != nil || n != 0 {
		t.Errorf("calls that were not executed left %d, %v", n, err)
	}
}

func (b bad) check(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if b.is != nil && !errors.Is(err, b.is) {
		t.Errorf("error %v is no %v", err, b.is)
	}
	for _, want := range b.want {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if got := shard.OutcomeOf(err); got != b.outcome {
		t.Errorf("outcome of %v: %v, want %v", err, got, b.outcome)
	}
}

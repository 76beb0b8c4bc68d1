package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	natsstream "github.com/shardgen/shardgen/stream/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// TestFeeds applies a JetStream stream to entities, over a restart of the server, and looks at it and
// at its dead letter with shardctl.
func TestFeeds(t *testing.T) {
	server := runJetStream(t, t.TempDir())
	url := server.URL()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "PAID", Subjects: []string{"paid.*"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	source, err := natsstream.Open(t.Context(), url, natsstream.Config{Stream: "PAID"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	n := shard.New(shard.Config{
		Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	t.Cleanup(func() { _ = n.Close() })
	wallets := bank.NewWalletClient(n)
	var mended atomic.Bool // the function
	err = errors.Join(
		bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }),
		shard.Consume(n, "paid", source, func(ctx context.Context, m shard.Message) error {
			if m.Subject == "paid.bad" && !mended.Load() {
				return errors.New("no such account")
			}
			return wallets.Tell(strings.TrimPrefix(m.Subject, "paid.")).Put(ctx, 1)
		}))
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	ctl := func(args string) (code int, out string) {
		var stdout, stderr strings.Builder
		code = run(t.Context(), strings.Fields(args+" -nats "+url), func(string) string { return "" }, &stdout, &stderr)
		return code, stdout.String() + stderr.String()
	}
	until := func(args, want string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; <-time.After(50 * time.Millisecond) {
			_, out := ctl(args)
			if regexp.MustCompile(want).MatchString(out) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("shardctl %s: got\n%s\nwant %s", args, out, want)
			}
		}
	}
	published := 0
	publish := func(subject string, times int) {
		t.Helper()
		for range times {
			published++
			for {
				if _, err := js.Publish(t.Context(), subject, []byte("x"), jetstream.WithMsgID(strconv.Itoa(published))); err == nil {
					break
				}
				<-time.After(50 * time.Millisecond) // the server restarts
			}
		}
	}
	publish("paid.ann", 10)
	publish("paid.bad", 1)
	until("feeds", `paid +0 +12 +0 +1 +0 +w1 `)
	until("dead paid", `0-11264 +11 +paid.bad +.*no such account`)
	if err := errors.Join(server.Kill(), server.Start()); err != nil {
		t.Fatal(err)
	}
	publish("paid.ann", 10)
	until("feeds paid", `paid +0 +22 +0 +1 `)
	until("rewind paid -to 1", `partition 0 of paid is read from 1 on`)
	publish("paid.ann", 1)
	until("feeds paid", `paid +0 +23 +0 +1 `)
	if total, err := wallets.Ref("ann").Get(t.Context()); err != nil || total != 21 {
		t.Fatalf("got %d, %v, want 21", total, err)
	}
	for _, c := range []struct{ args, want string }{
		{"dead paid 0-11264", `"why": "no such account"`},
		{"requeue paid", "give the id of a dead letter or -all, and not both"},
		{"requeue paid 0-1", "has no dead letter 0-1"},
		{"requeue paid -all", "letter 0-11264 of paid is requeued"},
		{"rewind paid", "-to is missing"},
		{"replay paid", "-to is missing"},
		{"rewind other -to 1", "no partition of feed other"},
		{"dead paid -drop", "-drop needs the id of a letter"},
		{"dead paid 0-11264 -drop", "is deleted"},
	} {
		if _, out := ctl(c.args); !strings.Contains(out, c.want) {
			t.Errorf("shardctl %s: got\n%s\nwant %s", c.args, out, c.want)
		}
	}
	publish("paid.bad", 2)
	until("feeds paid", `paid +0 +25 +0 +2 `)
	mended.Store(true)
	until("requeue paid -all", `letter 0-24576 of paid is requeued`)
	until("feeds paid", `paid +0 +25 +0 +0 `)
	if total, err := wallets.Ref("bad").Get(t.Context()); err != nil || total != 2 {
		t.Fatalf("got %d, %v, want 2", total, err)
	}
	until("replay paid -to 23", `partition 0 of paid is read from 23 on`) // one message to ann, two to bad
	publish("paid.ann", 1)
	until("feeds paid", `paid +0 +26 +0 +0 `)
	for id, want := range map[string]int64{"ann": 23, "bad": 4} {
		if total, err := wallets.Ref(id).Get(t.Context()); err != nil || total != want {
			t.Errorf("%s has %d after a replay, %v, want %d", id, total, err, want)
		}
	}
}

package natstransport

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/transport"
)

// TestMayAnswer: a host publishes answers only to its caller's inbox, whatever reply subject the
// caller gives.
func TestMayAnswer(t *testing.T) {
	for _, tt := range []struct {
		caller, reply string
		want          bool
	}{
		{"web", "_INBOX.web.x", true},
		{"web", "_INBOX.web.x.1", true},
		{"web", "_INBOX.web.", false},
		{"web", "_INBOX.web", false},
		{"web", "_INBOX.web2.x", false},
		{"web", "_INBOX.x", false},
		{"web", "$JS.API.STREAM.PURGE.orders", false},
		{"web", "sh.c.m.all", false},
		{"web", "_INBOX.web.>", false},
		{"web", "_INBOX.web.*", false},
		{"web", "_INBOX.web.a b", false},
		{"any", "_INBOX.web.x", true},
		{"any", "_INBOX.", false},
		{"any", "$JS.API.STREAM.PURGE.orders", false},
		{"any", "sh.c.m.all", false},
	} {
		if got := mayAnswer(tt.caller, tt.reply); got != tt.want {
			t.Errorf("mayAnswer(%q, %q) = %v, want %v", tt.caller, tt.reply, got, tt.want)
		}
	}
}

// FuzzMayAnswer checks that no reply subject leads out of the caller's inbox.
func FuzzMayAnswer(f *testing.F) {
	f.Add("web", "_INBOX.web.x")
	f.Add("any", "_INBOX.x")
	f.Add("web", "$JS.API.STREAM.PURGE.orders")
	f.Fuzz(func(t *testing.T, caller, reply string) {
		if !mayAnswer(caller, reply) {
			return
		}
		if len(reply) < 8 || reply[:7] != "_INBOX." || caller != "any" && reply[:7+len(caller)+1] != "_INBOX."+caller+"." {
			t.Fatalf("the reply subject %q of %q is accepted", reply, caller)
		}
	})
}

// TestOneCallerGetsHalf: a caller that floods a gateway gets half of its places, and others get the
// rest at once.
func TestOneCallerGetsHalf(t *testing.T) {
	const limit = 10
	begun, release := make(chan string, 100), make(chan struct{})
	refused := map[string]int{}
	s := &requests{faults: &faults{}, options: transport.RequestOptions{
		Cluster: "c", Limit: limit,
		Handle: func(r *transport.Request) { begun <- r.Caller; <-release },
		Refuse: func(r *transport.Request) { refused[r.Caller]++ },
	}}
	send := func(caller string, n int) {
		for i := range n {
			s.take(&nats.Msg{Subject: fmt.Sprintf("sh.c.g.%s.Account.Get.%d", caller, i)})
		}
	}
	send("evil", 3*limit)
	send("shop", 3)
	send("web", 3)
	got := map[string]int{}
	for range limit {
		got[<-begun]++
	}
	if got["evil"] != limit/2 || got["shop"] != 3 || got["web"] != 2 {
		t.Errorf("handled %v, want 5 of evil, 3 of shop and 2 of web", got)
	}
	if refused["evil"] != 3*limit-limit/2 || refused["shop"] != 0 || refused["web"] != 1 {
		t.Errorf("refused %v", refused)
	}
	close(release)
	s.close()
	if len(s.callers) != 0 || s.running != 0 {
		t.Errorf("%d places are taken afterwards: %v", s.running, s.callers)
	}
}

// TestStoppedWhileDisconnected: if a gateway stops while it has no connection, the next connection
// receives no requests. Else the broker would send some to a member that takes none.
func TestStoppedWhileDisconnected(t *testing.T) {
	server := natsproc.Start(t)
	nc, err := nats.Connect(server.URL(), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	sub, err := nc.QueueSubscribe("sh.c.g.*.K.>", gatewayQueue, func(*nats.Msg) {})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	require.NoError(t, server.Kill())
	disconnected := func(want bool) {
		require.Eventually(t, func() bool { return nc.IsConnected() != want }, 10*time.Second, time.Millisecond)
	}
	disconnected(true)
	(&requests{subs: []*nats.Subscription{sub}}).drain(nc)
	require.NoError(t, server.Start())
	disconnected(false)
	_, err = nc.Request("sh.c.g.any.K.M.x", nil, 10*time.Second)
	require.ErrorIs(t, err, nats.ErrNoResponders)
}

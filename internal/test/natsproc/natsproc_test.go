package natsproc_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/natsproc"
)

func serverID(t *testing.T, s *natsproc.Server) string {
	t.Helper()
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	return nc.ConnectedServerId()
}

func TestServer(t *testing.T) {
	s := natsproc.Start(t)
	url, pid, id := s.URL(), s.Pid(), serverID(t, s)
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "it is running") {
		t.Errorf("start a running server: error %v", err)
	}
	for _, end := range []func() error{s.Kill, s.Stop} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if s.Pid() != 0 {
			t.Errorf("pid %d of a server that ended", s.Pid())
		}
		if err := end(); err != nil {
			t.Errorf("end again: %v", err)
		}
		if err := s.Pause(); err == nil {
			t.Error("paused a server that ended")
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if s.URL() != url {
			t.Errorf("came back at %s, want %s", s.URL(), url)
		}
		if s.Pid() == pid || serverID(t, s) == id {
			t.Error("the same process came back")
		}
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	serverID(t, s)
}

func TestBadArguments(t *testing.T) {
	s, err := natsproc.Run("--no-such-flag")
	if err == nil {
		_ = s.Kill()
		t.Fatal("started")
	}
	if !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("error %q, want it to hold what the server said", err)
	}
}

// TestCluster checks that the servers of a cluster are connected, and that a restarted server
// connects again.
func TestCluster(t *testing.T) {
	servers, err := natsproc.RunCluster(3)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		t.Cleanup(func() {
			if err := s.Kill(); err != nil {
				t.Error(err)
			}
		})
	}
	url := servers[1].URL()
	if err := servers[1].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := servers[1].Start(); err != nil || servers[1].URL() != url {
		t.Fatalf("started again at %s: %v, want %s", servers[1].URL(), err, url)
	}
	one, err := nats.Connect(servers[0].URL())
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	two, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	got := make(chan *nats.Msg, 1024)
	if _, err := two.ChanSubscribe("x", got); err != nil {
		t.Fatal(err)
	}
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-got:
			return
		case <-again.C:
			if err := one.Publish("x", nil); err != nil {
				t.Fatal(err)
			}
		case <-t.Context().Done():
			t.Fatal("nothing comes through")
		}
	}
}

// TestFreeAddress checks that a server can listen at the returned address, that no outgoing
// connection gets its port, and that the next calls return other ports.
func TestFreeAddress(t *testing.T) {
	seen := make(map[string]bool)
	for range 98 {
		address, err := natsproc.FreeAddress("127.0.0.1")
		require.NoError(t, err)
		resolved, err := net.ResolveTCPAddr("tcp", address)
		require.NoError(t, err)
		require.Less(t, resolved.Port, 32768, "a port that the system gives to connections")
		l, err := net.Listen("tcp", address)
		require.NoError(t, err)
		require.NoError(t, l.Close())
		require.False(t, seen[address])
		seen[address] = true
	}
	_, err := natsproc.FreeAddress("192.0.2.1") // of no host: RFC 5737
	require.ErrorContains(t, err, "find a free port")
}

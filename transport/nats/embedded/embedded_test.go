package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/transport"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

func start(t *testing.T, o embedded.Options) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func connect(t *testing.T, s *embedded.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestDefaults(t *testing.T) {
	one, two := start(t, embedded.Options{}), start(t, embedded.Options{Port: -1})
	a, b := connect(t, one), connect(t, two)
	if !strings.HasPrefix(one.ClientURL(), "nats://127.0.0.1:") {
		t.Errorf("listens on %s, want 127.0.0.1", one.ClientURL())
	}
	if a.ConnectedServerName() == b.ConnectedServerName() || a.ConnectedServerId() == b.ConnectedServerId() {
		t.Errorf("two servers share the name %q or the id", a.ConnectedServerName())
	}
	if a.MaxPayload() != 1<<20 {
		t.Errorf("max payload %d, want 1 MiB", a.MaxPayload())
	}
	if _, err := jetStream(a); err == nil {
		t.Error("JetStream is on without a StoreDir")
	}
}

func jetStream(nc *nats.Conn) (*nats.AccountInfo, error) {
	js, err := nc.JetStream()
	if err != nil {
		return nil, err
	}
	return js.AccountInfo()
}

func TestOptions(t *testing.T) {
	s := start(t, embedded.Options{Name: "mine", StoreDir: t.TempDir(), MaxPayload: 1 << 16})
	nc := connect(t, s)
	if nc.ConnectedServerName() != "mine" || nc.MaxPayload() != 1<<16 {
		t.Errorf("name %q and max payload %d, want mine and 65536", nc.ConnectedServerName(), nc.MaxPayload())
	}
	if _, err := jetStream(nc); err != nil {
		t.Errorf("JetStream with a StoreDir: %v", err)
	}
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	s, err := embedded.Start(embedded.Options{Port: port})
	if err == nil {
		s.Shutdown()
		t.Fatal("started on a port that is taken")
	}
	for _, want := range []string{"127.0.0.1:" + strconv.Itoa(port), "address already in use", "Port 0 picks a free one"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want it to say %q", err, want)
		}
	}
}

func TestShutdown(t *testing.T) {
	s := start(t, embedded.Options{})
	url := s.ClientURL()
	s.Shutdown()
	s.Shutdown()
	if nc, err := nats.Connect(url); !errors.Is(err, nats.ErrNoServers) {
		if err == nil {
			nc.Close()
		}
		t.Errorf("connect after Shutdown: error %v, want no servers", err)
	}
}

func Example() {
	s, err := embedded.Start(embedded.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Shutdown()

	link, err := s.Transport().Open(context.Background(), transport.Options{
		Cluster: "shop",
		Self:    transport.Address{Name: "web-1", Incarnation: 1},
		Lanes:   1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer link.Close()

	if err := link.Broadcast([]byte("hello")); err != nil {
		fmt.Println(err)
		return
	}
	m, err := link.Receive(transport.Control)
	fmt.Printf("%s %v\n", m.Payload, err)
	// Output: hello <nil>
}

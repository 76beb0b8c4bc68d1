package natstransport_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/transport"
)

// startGranting starts a server whose user a may listen to a node's subjects and
// to more.
func startGranting(t *testing.T, port int, more ...string) (s *server.Server, grant func(more ...string)) {
	t.Helper()
	options := func(more []string) *server.Options {
		return &server.Options{
			Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true,
			Users: []*server.User{{Username: "a", Password: "secret", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"sh.c.>"}},
				Subscribe: &server.SubjectPermission{Allow: append([]string{"sh.c.m.a.>", "sh.c.m.all", "sh.c.c.*.*.a.>", "sh.c.o.*.*.*.a.>", "sh.c.o.*.*.*.all", "sh.c.r.m.a.>"}, more...)},
			}}},
		}
	}
	s, err := server.NewServer(options(more))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("server not ready")
	}
	return s, func(more ...string) {
		t.Helper()
		if err := s.ReloadOptions(options(more)); err != nil {
			t.Fatal(err)
		}
	}
}

// A member that is not granted Anycast is told so each time it asks and goes
// on without, also on the next connection. Once granted, it serves.
func TestServeDenied(t *testing.T) {
	addr := freeAddress(t)
	var p int
	if _, err := fmt.Sscanf(addr, "127.0.0.1:%d", &p); err != nil {
		t.Fatal(err)
	}
	s, _ := startGranting(t, p)
	states := make(chan transport.State, 100)
	o := optionsOf(nodeA)
	o.OnState = func(ch transport.Channel, s transport.State) {
		if ch == transport.Control {
			states <- s
		}
	}
	a := openWith(t, "nats://a:secret@"+addr, o)
	wantState(t, states, true)
	wantDenied := func() {
		t.Helper()
		err := a.Serve(t.Context(), true)
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), ".any") || !strings.Contains(err.Error(), "grant") {
			t.Errorf("error %v, want it to name the subject and the remedy", err)
		}
	}
	wantDenied()
	wantDenied()
	if err := a.Serve(t.Context(), false); err != nil {
		t.Errorf("serve no more: %v", err)
	}
	wantDenied() // and no next connection asks again

	s.Shutdown()
	s.WaitForShutdown()
	wantState(t, states, false)
	_, grant := startGranting(t, p)
	wantState(t, states, true)
	if err := a.Broadcast([]byte("all")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, transport.Control, transport.Broadcast, "all")

	wantDenied()
	grant("sh.c.m.any any", "sh.c.c.*.*.any", "sh.c.o.*.*.*.any")
	if err := a.Serve(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if err := a.Anycast(1, []byte("any")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, transport.Control, transport.Anycast, "any")
	select {
	case s := <-states:
		t.Errorf("told %+v: the grant was to come within a connection", s)
	default:
	}
}

package natstransport_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/transport"
)

// startGranting starts a server whose user a may listen to a node's subjects. grant gives this user
// further rights.
func startGranting(t *testing.T) (s *natsproc.Server, grant func(more ...string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	write := func(more ...string) {
		t.Helper()
		listen := append([]string{"sh.c.m.a.>", "sh.c.m.all", "sh.c.c.*.*.a.>", "sh.c.o.*.*.*.a.>", "sh.c.o.*.*.*.all", "sh.c.r.m.a.>"}, more...)
		config := fmt.Sprintf(`authorization { users = [{user: a, password: secret, permissions: {publish: "sh.c.>", subscribe: ["%s"]}}] }`,
			strings.Join(listen, `", "`))
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	s = natsproc.Start(t, "-c", file)
	return s, func(more ...string) {
		t.Helper()
		write(more...)
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}

// If a member lacks the right for Anycast, each Serve fails, and the member goes on without, even
// on the next connection. When it gets the right, it serves.
func TestServeDenied(t *testing.T) {
	s, grant := startGranting(t)
	states := make(chan transport.State, 100)
	o := optionsOf(nodeA)
	o.OnState = func(ch transport.Channel, s transport.State) {
		if ch == transport.Control {
			states <- s
		}
	}
	a := openWith(t, strings.Replace(s.URL(), "//", "//a:secret@", 1), o)
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
	wantDenied() // and later connections do not ask again

	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	wantState(t, states, false)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	wantState(t, states, true)
	if err := a.Broadcast([]byte("all")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, transport.Control, transport.Broadcast, "all")

	wantDenied()
	grant("sh.c.m.any any", "sh.c.c.*.*.any", "sh.c.o.*.*.*.any")
	for granted := time.Now().Add(patience); ; { // the server reads its configuration a moment later
		err := a.Serve(t.Context(), true)
		if err == nil {
			break
		}
		if time.Now().After(granted) {
			t.Fatal(err)
		}
	}
	if err := a.Anycast(1, []byte("any")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, transport.Control, transport.Anycast, "any")
	select {
	case s := <-states:
		t.Errorf("told %+v: want no break when the right is granted", s)
	default:
	}
}

package natstransport_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/natsproc"
	"github.com/shardgen/shardgen/transport"
)

// noGateway is leastPrivilege without the gateway's queue group.
const noGateway = `
listen: "127.0.0.1:-1"
authorization {
  users = [ { user: a, password: secret, permissions: {
    publish: "sh.c.>", subscribe: ["sh.c.n.a.>", "sh.c.r.a.>", "sh.c.ctl.>"] } } ]
}
`

// A member that is not granted the gateway is told so each time it asks, and
// goes on without, also on the next connection.
func TestServeDenied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(noGateway), 0o600); err != nil {
		t.Fatal(err)
	}
	s := natsproc.Start(t, "-c", path)
	a, states := openStates(t, "nats://a:secret@"+strings.TrimPrefix(s.URL(), "nats://"))
	wantState(t, states, true)
	for range 2 {
		err := a.Serve(t.Context(), true)
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "sh.c.gw.ctl") || !strings.Contains(err.Error(), "grant") {
			t.Errorf("error %v, want it to name the subject and the remedy", err)
		}
		if err := a.Serve(t.Context(), false); err != nil {
			t.Errorf("serve no more: %v", err)
		}
	}
	if err := a.Serve(t.Context(), true); err == nil {
		t.Error("serves what is not granted")
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	wantState(t, states, false)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	wantState(t, states, true)
	if err := a.Send(0, transport.Peer{Address: nodeA}, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, 0, transport.Direct, "x")
}

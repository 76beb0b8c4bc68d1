package natstransport_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/natsproc"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

var nodeA = transport.Address{Name: "a", Incarnation: 0xa}

func optionsOf(self transport.Address) transport.Options {
	return transport.Options{Cluster: "c", Self: self, Lanes: 2}
}

// wantOpenError opens a link that must fail soon, with an error that says all of want.
func wantOpenError(t *testing.T, tr *natstransport.Transport, want ...string) {
	t.Helper()
	began := time.Now()
	l, err := tr.Open(t.Context(), optionsOf(nodeA))
	if err == nil {
		_ = l.Close()
		t.Fatal("opened, want an error")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q, want it to say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("error %q tells the password", err)
	}
	if d := time.Since(began); d > 4*time.Second {
		t.Errorf("open failed after %v", d)
	}
}

// freeAddress is one where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestOpenRefused(t *testing.T) {
	addr := freeAddress(t)
	short := natstransport.ConnectTimeout(300 * time.Millisecond)
	wantOpenError(t, natstransport.New("nats://u:secret@"+addr, short),
		"open link: nats://***@"+addr, "no connection within 300ms", "connection refused", "is a NATS server running there?")
	wantOpenError(t, natstransport.New("http://"+addr), `scheme "http"`)
	wantOpenError(t, natstransport.New("nats://no-such-host.invalid", short), "nats://no-such-host.invalid")
}

// A server that says nothing, or not what NATS says, does not hold Open up.
func TestOpenStrangeServer(t *testing.T) {
	for _, greeting := range []string{"", "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		t.Run(fmt.Sprintf("%.4q", greeting), func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					defer c.Close() // at the end of the test, not before
					_, _ = c.Write([]byte(greeting))
				}
			}()
			wantOpenError(t, natstransport.New(l.Addr().String(), natstransport.ConnectTimeout(500*time.Millisecond)), l.Addr().String())

			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			_, err = natstransport.New(l.Addr().String()).Open(ctx, optionsOf(nodeA))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want that of the context", err)
			}
		})
	}
}

func TestOpenWrongCredentials(t *testing.T) {
	s := natsproc.Start(t, "--user", "u", "--pass", "secret")
	addr := strings.TrimPrefix(s.URL(), "nats://")
	wantOpenError(t, natstransport.New(s.URL()), "Authorization Violation", "credentials")
	wantOpenError(t, natstransport.New("nats://u:secret2@"+addr), "Authorization Violation", "***@"+addr)
	l := openLink(t, "nats://u:secret@"+addr, nodeA)
	if !l.State(0).Connected {
		t.Error("not connected with the right credentials")
	}
	openLink(t, s.URL(), transport.Address{Name: "b"}, natstransport.ConnectOptions(nats.UserInfo("u", "secret")))
}

// leastPrivilege is what nats.md grants a node and a client by their names.
const leastPrivilege = `
listen: "127.0.0.1:-1"
authorization {
  node = { publish: "sh.c.>", subscribe: ["sh.c.n.%[1]s.>", "sh.c.r.%[1]s.>", "sh.c.ctl.>", "sh.c.gw.> gw"] }
  client = { publish: ["sh.c.gw.>", "sh.c.n.>"], subscribe: "sh.c.r.outside.>" }
  users = [
    { user: a, password: secret, permissions: $node }
    { user: outside, password: secret, permissions: $client }
  ]
}
`

func startWithPermissions(t *testing.T) (addr string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, fmt.Appendf(nil, leastPrivilege, "a"), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(natsproc.Start(t, "-c", path).URL(), "nats://")
}

func TestLeastPrivilege(t *testing.T) {
	addr := startWithPermissions(t)
	a := openLink(t, "nats://a:secret@"+addr, nodeA)
	o := optionsOf(transport.Address{Name: "outside", Incarnation: 1})
	o.Client = true
	outside := openWith(t, "nats://outside:secret@"+addr, o)
	if err := a.Serve(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if err := outside.Anycast(1, []byte("table?")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, transport.Control, transport.Anycast, "table?")
	if err := a.Send(transport.Control, transport.Peer{Address: o.Self, Client: true}, 1, []byte("table")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, outside, transport.Control, transport.Direct, "table")
	if err := outside.Send(0, transport.Peer{Address: nodeA}, 1, []byte("call")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, 0, transport.Direct, "call")
}

func TestPermissionDenied(t *testing.T) {
	addr := startWithPermissions(t)
	// Not the name that the user is granted.
	l, err := natstransport.New("nats://a:secret@"+addr).Open(t.Context(), optionsOf(transport.Address{Name: "b"}))
	if err == nil {
		_ = l.Close()
		t.Fatal("opened under a name that is not granted")
	}
	if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), ".b.0000000000000000.") || !strings.Contains(err.Error(), "grant") {
		t.Errorf("error %q, want it to name the subject and the remedy", err)
	}
	// A client may not broadcast: the server says so after the fact.
	o := optionsOf(transport.Address{Name: "outside", Incarnation: 1})
	o.Client = true
	denied := make(chan error, 10)
	outside := openWith(t, "nats://outside:secret@"+addr, o, natstransport.ConnectOptions(
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err })))
	if err := outside.Broadcast(nil); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-denied:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("user's handler was told %v, want a permission violation", err)
		}
	case <-time.After(patience):
		t.Fatal("user's handler was told nothing")
	}
	if n := outside.(transport.Counter).Counts(transport.Control); n.Denied != 1 {
		t.Errorf("counts %+v, want one denied", n)
	}
}

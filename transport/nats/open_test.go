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

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

var nodeA = transport.Address{Name: "a", Incarnation: 0xa}

func optionsOf(self transport.Address) transport.Options {
	return transport.Options{Cluster: "c", Self: self, Lanes: 2}
}

// wantOpenError opens a link that must fail soon, with an error that contains all of want.
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

// freeAddress returns an address where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := natsproc.FreeAddress("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func TestOpenRefused(t *testing.T) {
	addr := freeAddress(t)
	short := natstransport.ConnectTimeout(300 * time.Millisecond)
	wantOpenError(t, natstransport.New("nats://u:secret@"+addr, short),
		"open link: nats://***@"+addr, "no connection to a server within 300ms", "connection refused", "is a NATS server running there?")
	wantOpenError(t, natstransport.New("http://"+addr), `scheme "http"`)
	wantOpenError(t, natstransport.New("nats://no-such-host.invalid", short), "nats://no-such-host.invalid")
}

// A server that is silent, or does not speak the NATS protocol, does not delay Open.
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
				t.Errorf("error %v, want the context's error", err)
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

// leastPrivilege has the rights of a member, a client, and an operator with queries only.
const leastPrivilege = `
listen: "127.0.0.1:-1"
authorization {
  node = { publish: ["sh.c.m.>", "sh.c.r.c.>", "sh.c.r.o.>"], subscribe: ["sh.c.m.>", "sh.c.c.>", "sh.c.o.>", "sh.c.r.m.>"] }
  client = { publish: "sh.c.c.outside.>", subscribe: "sh.c.r.c.outside.>" }
  reader = { publish: "sh.c.o.ann.get.>", subscribe: "sh.c.r.o.ann.>" }
  narrow = { publish: { allow: "sh.c.c.narrow.>", deny: "sh.c.c.narrow.*.b.>" }, subscribe: "sh.c.r.c.narrow.>" }
  users = [
    { user: a, password: secret, permissions: $node }
    { user: outside, password: secret, permissions: $client }
    { user: ann, password: secret, permissions: $reader }
    { user: narrow, password: secret, permissions: $narrow }
  ]
}
`

func startWithPermissions(t *testing.T) (addr string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(leastPrivilege), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(natsproc.Start(t, "-c", path).URL(), "nats://")
}

// outsider returns the options of a process of the given class, which is not a member.
func outsider(name string, class identity.Class) transport.Options {
	o := optionsOf(transport.Address{Name: name, Incarnation: identity.New(class)})
	o.Client = true
	return o
}

func TestLeastPrivilege(t *testing.T) {
	addr := startWithPermissions(t)
	a := openLink(t, "nats://a:secret@"+addr, nodeA)
	o := outsider("outside", identity.Client)
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
	o = outsider("ann", identity.Reader)
	ann := openWith(t, "nats://ann:secret@"+addr, o)
	if err := ann.Broadcast([]byte("who is there?")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, transport.Control, transport.Broadcast, "who is there?")
	if err := a.Send(transport.Control, transport.Peer{Address: o.Self, Client: true}, 1, []byte("a")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, ann, transport.Control, transport.Direct, "a")
}

func TestPermissionDenied(t *testing.T) {
	addr := startWithPermissions(t)
	for who, o := range map[string]transport.Options{
		"not the name that the user is granted": outsider("other", identity.Client),
		"not the class":                         optionsOf(transport.Address{Name: "outside"}),
	} {
		l, err := natstransport.New("nats://outside:secret@"+addr).Open(t.Context(), o)
		if err == nil {
			_ = l.Close()
			t.Errorf("%s: opened", who)
			continue
		}
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `Subscription to "sh.c.`) || !strings.Contains(err.Error(), "grant") {
			t.Errorf("%s: error %q, want it to name the subject and the remedy", who, err)
		}
	}
}

// TestMissingRightToPublish: if a process lacks a right of its class to publish, Open fails at
// once. Its error names the subject and the command that prints the rights.
func TestMissingRightToPublish(t *testing.T) {
	addr := startWithPermissions(t)
	_, err := natstransport.New("nats://ann:secret@"+addr).Open(t.Context(), outsider("ann", identity.Operator))
	for _, part := range []string{`"sh.c.o.ann.do.`, "shardctl permissions operator -cluster c -name ann"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("opened as an operator who may only look: %v, want %q", err, part)
		}
	}
}

// TestDeniedMessage: if the server refuses a message after Send, the link reports that, with the
// message's receiver.
func TestDeniedMessage(t *testing.T) {
	addr := startWithPermissions(t)
	nodeB := transport.Address{Name: "b", Incarnation: 0xb}
	denied := make(chan error, 10)
	o := outsider("narrow", identity.Client)
	l := openWith(t, "nats://narrow:secret@"+addr, o, natstransport.ConnectOptions(
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err })))
	if err := l.Send(0, transport.Peer{Address: nodeB}, 1, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-denied:
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "sh.c.c.narrow.") {
			t.Errorf("the user's handler got %v, want a permission violation with the subject", err)
		}
	case <-time.After(patience):
		t.Fatal("the user's handler was not called")
	}
	watchdog := time.AfterFunc(patience, func() { _ = l.Close() })
	defer watchdog.Stop()
	if m, err := l.Receive(0); err != nil || m.Kind != transport.Unreachable || m.From != nodeB || !strings.Contains(string(m.Payload), "client -cluster c -name narrow") {
		t.Errorf("received %+v %s, %v, want an Unreachable of %v with the rights", m, m.Payload, err, nodeB)
	}
	if n := l.(transport.Counter).Counts(0); n.Denied != 1 {
		t.Errorf("counts %+v, want one denied", n)
	}
}

package natstransport

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// FuzzSubject reads messages with random subjects, as a member and as a client. The sender must be
// one that the subject can name. Parsed addresses must have the parts in the subject.
func FuzzSubject(f *testing.F) {
	for _, s := range []string{
		"sh.c.m.a.0000000000000001.0", "sh.c.m.all", "sh.c.c.web.4000000000000001.any", "sh.c.c.web.4000000000000001.a.0000000000000001.0",
		"sh.c.o.ann.do.c000000000000001.all", "sh.c.o.bob.get.8000000000000001.a.0000000000000001", "sh.c.r.m.a.0000000000000001.0.u.b.0000000000000002.5",
		"sh.c.r.m.a.0000000000000001.0.a.7", "sh.c.r.c.web.4000000000000001.0.f", "sh.c.r.m.a.0000000000000001.0.u.b.2.x", "sh.c.", "sh.c.m",
	} {
		f.Add(s, "", false)
		f.Add(s, "503", true)
	}
	f.Fuzz(func(t *testing.T, subject, status string, client bool) {
		self := transport.Address{Name: "a", Incarnation: 1}
		if client {
			self = transport.Address{Name: "web", Incarnation: identity.Mark(identity.Client, 1)}
		}
		c := &channel{subjects: newSubjects("c", self, 0), client: client, log: slog.New(slog.DiscardHandler)}
		c.connection.Store(&connection{})
		if from, token, ok := parseUnreachable(subject); ok {
			again, n, ok := parseUnreachable(fmt.Sprintf("%s.%x.%x", from.Name, from.Incarnation, token))
			if !ok || again != from || n != token {
				t.Fatalf("%q is %v and %d, again %v and %d", subject, from, token, again, n)
			}
		}
		_, _ = parseToken(subject)
		if a, ok := address(subject); ok && !strings.HasPrefix(strings.ToLower(subject), strings.ToLower(node(a))) {
			t.Fatalf("the address of %q is %v", subject, a)
		}
		if !strings.HasPrefix(subject, c.subjects.prefix) {
			return // the link does not subscribe to other subjects
		}
		m := &nats.Msg{Subject: subject, Sub: &nats.Subscription{}}
		if status != "" {
			m.Header = nats.Header{statusHeader: {status}}
		}
		if name := nameOf(m, c); name != "" && !strings.HasPrefix(subject, c.subjects.prefix+name+".") {
			t.Fatalf("the name of %q is %q", subject, name)
		}
		if msg, ok := c.parse(m); ok && msg.Kind != transport.Unreachable && !msg.From.IsZero() {
			if transport.CheckName("sender", msg.From.Name) != nil || !strings.Contains(subject, fmt.Sprintf(".%016x.", msg.From.Incarnation)) {
				t.Fatalf("the sender of %q is %v", subject, msg.From)
			}
		}
	})
}

// FuzzRequest handles random requests: subject, headers and body.
func FuzzRequest(f *testing.F) {
	f.Add("sh.c.g.web.Account.Add.alice", "_INBOX.web.1", "Shard-Timeout", "2s", []byte(`{"n": 1}`))
	f.Add("sh.c.g.web.Account.Add.a=20b", "", "Content-Type", "application/json", []byte{})
	f.Add("sh.c.g.any.Account", "_INBOX.x", "Nats-Msg-Id", "7", []byte("x"))
	f.Add("sh.c.g..Account.Add.x", "$JS.API.STREAM.PURGE.x", "X", "y", []byte(nil))
	f.Fuzz(func(t *testing.T, subject, reply, key, value string, body []byte) {
		check := func(r *transport.Request) {
			if transport.CheckName("caller", r.Caller) != nil || !strings.HasPrefix(subject, "sh.c.g."+r.Caller+".") && !strings.HasPrefix(subject, r.Caller+".") {
				t.Errorf("the caller of %q is %q", subject, r.Caller)
			}
			if r.Answer != nil && !mayAnswer(r.Caller, reply) {
				t.Errorf("%s is answered at %q", r.Caller, reply)
			}
			if r.IDErr == nil && r.ID != "" && !strings.HasSuffix(subject, "."+transport.EscapeID(r.ID)) {
				t.Errorf("the id of %q is %q", subject, r.ID)
			}
			for name := range r.Header {
				if name == headerTimeout || strings.HasPrefix(name, brokerHeaders) {
					t.Errorf("the header %q is passed on", name)
				}
			}
		}
		s := &requests{faults: &faults{log: slog.New(slog.DiscardHandler)}, options: transport.RequestOptions{
			Cluster: "c", Limit: 2, Handle: check, Refuse: check,
		}}
		s.take(&nats.Msg{Subject: subject, Reply: reply, Header: nats.Header{key: {value}}, Data: body})
		s.close()
	})
}

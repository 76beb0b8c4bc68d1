package natstransport

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

func TestSubjects(t *testing.T) {
	web := transport.Address{Name: "web-1", Incarnation: 0xc0ffee}
	of := func(c identity.Class) transport.Address {
		return transport.Address{Name: "p", Incarnation: identity.Mark(c, 1)}
	}
	for _, tt := range []struct {
		who                       string
		self                      transport.Address
		ch                        transport.Channel
		toMember, toClient, toOps string
		all, any, nobody, replies string
		listen, serve             string
	}{
		{
			"member", web, 3,
			"sh.shop.m.w2.0000000000000001.3", "sh.shop.r.c.p.4000000000000001.3.f", "sh.shop.r.o.p.c000000000000001.3.f",
			"sh.shop.m.all", "sh.shop.m.any", "sh.shop.r.m.web-1.0000000000c0ffee.3.a.ff", "sh.shop.r.m.web-1.0000000000c0ffee.3.",
			"sh.shop.m.web-1.0000000000c0ffee.3 sh.shop.c.*.*.web-1.0000000000c0ffee.3", "",
		},
		{
			"member's control", web, transport.Control,
			"sh.shop.m.w2.0000000000000001.ctl", "sh.shop.r.c.p.4000000000000001.ctl.f", "sh.shop.r.o.p.c000000000000001.ctl.f",
			"sh.shop.m.all", "sh.shop.m.any", "sh.shop.r.m.web-1.0000000000c0ffee.ctl.a.ff", "sh.shop.r.m.web-1.0000000000c0ffee.ctl.",
			"sh.shop.m.web-1.0000000000c0ffee.ctl sh.shop.c.*.*.web-1.0000000000c0ffee.ctl sh.shop.m.all sh.shop.o.*.*.*.web-1.0000000000c0ffee sh.shop.o.*.*.*.all",
			"sh.shop.m.any sh.shop.c.*.*.any sh.shop.o.*.*.*.any",
		},
		{
			"client", of(identity.Client), 3,
			"sh.shop.c.p.4000000000000001.w2.0000000000000001.3", "sh.shop.r.c.p.4000000000000001.3.f", "sh.shop.r.o.p.c000000000000001.3.f",
			"", "sh.shop.c.p.4000000000000001.any", "sh.shop.r.c.p.4000000000000001.3.a.ff", "sh.shop.r.c.p.4000000000000001.3.", "", "",
		},
		{
			"reader", of(identity.Reader), transport.Control,
			"sh.shop.o.p.get.8000000000000001.w2.0000000000000001", "sh.shop.r.c.p.4000000000000001.ctl.f", "sh.shop.r.o.p.c000000000000001.ctl.f",
			"sh.shop.o.p.get.8000000000000001.all", "sh.shop.o.p.get.8000000000000001.any", "sh.shop.r.o.p.8000000000000001.ctl.a.ff",
			"sh.shop.r.o.p.8000000000000001.ctl.", "", "",
		},
		{
			"operator", of(identity.Operator), transport.Control,
			"sh.shop.o.p.do.c000000000000001.w2.0000000000000001", "sh.shop.r.c.p.4000000000000001.ctl.f", "sh.shop.r.o.p.c000000000000001.ctl.f",
			"sh.shop.o.p.do.c000000000000001.all", "sh.shop.o.p.do.c000000000000001.any", "sh.shop.r.o.p.c000000000000001.ctl.a.ff",
			"sh.shop.r.o.p.c000000000000001.ctl.", "", "",
		},
	} {
		s := newSubjects("shop", tt.self, tt.ch)
		subject := func(to transport.Address, client bool) string {
			r, err := s.route(transport.Peer{Address: to, Client: client})
			if err != nil {
				t.Fatal(err)
			}
			return r.subject
		}
		for _, c := range []struct{ what, got, want string }{
			{"to a member", subject(transport.Address{Name: "w2", Incarnation: 1}, false), tt.toMember},
			{"to a client", subject(of(identity.Client), true), tt.toClient},
			{"to an operator", subject(of(identity.Operator), true), tt.toOps},
			{"to all", s.broadcast, tt.all},
			{"to any", s.anycast, tt.any},
			{"nobody there", replySubject(s.nobody, 255), tt.nobody},
			{"replies", s.replies, tt.replies},
			{"listens", strings.Join(s.listen, " "), tt.listen},
			{"serves", strings.Join(s.serve, " "), tt.serve},
		} {
			if c.got != c.want {
				t.Errorf("%s, %s: got %s, want %s", tt.who, c.what, c.got, c.want)
			}
		}
	}
}

// TestSender: a message's sender is parsed from its subject. Subjects of other forms have no
// sender.
func TestSender(t *testing.T) {
	for _, tt := range []struct {
		subject string
		want    identity.Class
		rest    string
	}{
		{"c.p.4000000000000001.w2.0000000000000001.3", identity.Client, "w2.0000000000000001.3"},
		{"c.p.4000000000000001.any", identity.Client, "any"},
		{"o.p.get.8000000000000001.all", identity.Reader, "all"},
		{"o.p.do.c000000000000001.w2.0000000000000001", identity.Operator, "w2.0000000000000001"},
	} {
		from, rest, ok := sender(tt.subject)
		if want := (transport.Address{Name: "p", Incarnation: identity.Mark(tt.want, 1)}); !ok || from != want || rest != tt.rest {
			t.Errorf("sender(%q) = %v, %q, %v, want %v, %q", tt.subject, from, rest, ok, want, tt.rest)
		}
	}
	for _, bad := range []string{
		"c.p.0000000000000001.any", // incarnation of a member
		"c.p.8000000000000001.any", // of an operator
		"o.p.get.c000000000000001.any", "o.p.do.8000000000000001.any", "o.p.see.8000000000000001.any",
		"c.p.4000000000000001", "c.p.400000000000001.any", "c.p.+400000000000001.any", "c..4000000000000001.any", "c.p", "c", "", "o.p.get",
	} {
		if from, _, ok := sender(bad); ok {
			t.Errorf("sender(%q) = %v, want none", bad, from)
		}
	}
}

// TestSendersConfuseNone: a subject's parsed sender does not depend on the message before, and the
// cache keeps only the last sender.
func TestSendersConfuseNone(t *testing.T) {
	subjects := []string{
		"c.p.4000000000000001.w2.0000000000000001.3", "c.p.4000000000000001.any", "c.p.4000000000000001.",
		"c.p.4000000000000002.any", "c.pp.4000000000000001.any", "c.P.4000000000000001.any", // a different incarnation and different names
		"c.p.400000000000000a.any", "c.p.400000000000000A.any", // the second is no sender
		"c.p.40000000000000011.any", "c.p.4000000000000001", "c.p.4000000000000001any", "c.p", "c.p.", "c", "", // no sender
		"o.p.get.8000000000000001.all", "o.p.do.c000000000000001.all", "o.p.do.8000000000000001.all", "c.p.8000000000000001.any",
	}
	for _, before := range subjects {
		for _, subject := range subjects {
			var s senders
			s.sender(before)
			for range 2 {
				from, rest, ok := s.sender(subject)
				wantFrom, wantRest, want := sender(subject)
				if from != wantFrom || rest != wantRest || ok != want {
					t.Errorf("%q after %q: got %v, %q, %v, want %v, %q, %v", subject, before, from, rest, ok, wantFrom, wantRest, want)
				}
			}
		}
	}
	var s senders
	for i := range uint64(10_000) {
		s.sender(newSubjects("shop", transport.Address{Name: "p", Incarnation: identity.Mark(identity.Client, i)}, 0).say[len("sh.shop."):] + "any")
	}
	if want := "c.p.400000000000270f."; s.last != want || s.from.Incarnation != identity.Mark(identity.Client, 9_999) {
		t.Errorf("the cache has %q of %v, want %q", s.last, s.from, want)
	}
}

// FuzzSender checks that a subject names at most one sender, which publishes to it.
func FuzzSender(f *testing.F) {
	f.Add("c.p.4000000000000001.w2.0000000000000001.3")
	f.Add("o.p.do.c000000000000001.all")
	f.Fuzz(func(t *testing.T, s string) {
		from, rest, ok := sender(s)
		if !ok {
			return
		}
		say := newSubjects("shop", from, transport.Control).say
		if got := strings.TrimPrefix(say, "sh.shop.") + rest; !strings.EqualFold(got, s) {
			t.Fatalf("%q is read as %v's, who publishes to %q", s, from, got)
		}
	})
}

// The longest reply subject fits the buffer, and so costs one allocation.
func TestReplySubjectFits(t *testing.T) {
	long := transport.Address{Name: strings.Repeat("n", transport.MaxNameBytes), Incarnation: math.MaxUint64} // an operator's
	s := newSubjects(strings.Repeat("c", transport.MaxNameBytes), long, transport.MaxLanes-1)
	r, err := s.route(transport.Peer{Address: long})
	if err != nil {
		t.Fatal(err)
	}
	got := replySubject(r.reply, math.MaxUint64)
	if len(got) > maxReplyBytes {
		t.Errorf("reply subject has %d bytes, want at most %d", len(got), maxReplyBytes)
	}
	from, token, ok := parseUnreachable(strings.TrimPrefix(got, s.replies+wordUnreachable+"."))
	if !ok || from != long || token != math.MaxUint64 {
		t.Errorf("parsed %v %x %v, want %v and all ones", from, token, ok, long)
	}
	if n := testing.AllocsPerRun(100, func() { _ = replySubject(r.reply, math.MaxUint64) }); n > 1 {
		t.Errorf("%v allocations, want 1", n)
	}
}

func TestParseUnreachable(t *testing.T) {
	for _, bad := range []string{"", ".", "..", "a", "a.1", "a.1.", "a.x.1", "a.1.x", "a.1.1.1", "a.-1.1", "a.1.10000000000000000"} {
		if from, token, ok := parseUnreachable(bad); ok {
			t.Errorf("parseUnreachable(%q) = %v, %d, want not ok", bad, from, token)
		}
	}
}

// TestRoutesExpire: routes to gone processes are dropped. A route that is used again is equal to
// the one before.
func TestRoutesExpire(t *testing.T) {
	s := newSubjects("c", transport.Address{Name: "n", Incarnation: 1}, transport.Control)
	r, now := routes{subjects: &s, byPeer: map[transport.Peer]route{}}, time.Now()
	r.expire(now)
	peer := func(i uint64) transport.Peer {
		return transport.Peer{Address: transport.Address{Name: "web", Incarnation: identity.Mark(identity.Client, i)}, Client: true}
	}
	first, err := r.route(peer(0))
	require.NoError(t, err)
	for i := range uint64(2 * maxRoutes) {
		_, err := r.route(peer(i))
		require.NoError(t, err)
		require.LessOrEqual(t, len(r.byPeer), maxRoutes)
	}
	r.expire(now.Add(routesFor / 2))
	require.NotEmpty(t, r.byPeer)
	r.expire(now.Add(routesFor))
	require.Empty(t, r.byPeer)
	again, err := r.route(peer(0))
	require.NoError(t, err)
	require.Equal(t, first, again)
}

// TestDeniedSubject reads refusals of nats-server. Names in subjects say nothing about the kind.
func TestDeniedSubject(t *testing.T) {
	for text, publish := range map[string]bool{
		`Permissions Violation for Subscription to "sh.publisher.m.publish-1.1"`: false,
		`Permissions Violation for Publish to "sh.publisher.m.publish-1.1"`:      true,
		`permissions violation for publish to "sh.publisher.m.publish-1.1"`:      true,
	} {
		subject, is := deniedSubject(fmt.Errorf("%w: %s", nats.ErrPermissionViolation, text))
		require.Equal(t, "sh.publisher.m.publish-1.1", subject)
		require.Equal(t, publish, is, text)
	}
	subject, publish := deniedSubject(nats.ErrPermissionViolation)
	require.Empty(t, subject)
	require.False(t, publish)
}

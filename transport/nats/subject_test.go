package natstransport

import (
	"math"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/transport"
)

func TestSubjects(t *testing.T) {
	self := transport.Address{Name: "web-1", Incarnation: 0xc0ffee}
	peer := transport.Peer{Address: transport.Address{Name: "w2", Incarnation: 1}}
	lane, ctl := newSubjects("shop", self, 3), newSubjects("shop", self, transport.Control)
	direct, err := lane.route(peer)
	if err != nil {
		t.Fatal(err)
	}
	peer.Client = true
	client, err := ctl.route(peer)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ what, got, want string }{
		{"requests", lane.requests, "sh.shop.n.web-1.0000000000c0ffee.3"},
		{"replies", lane.replies, "sh.shop.r.web-1.0000000000c0ffee.3."},
		{"control requests", ctl.requests, "sh.shop.n.web-1.0000000000c0ffee.ctl"},
		{"broadcast", ctl.broadcast, "sh.shop.ctl.all"},
		{"gateway", ctl.gateway, "sh.shop.gw.ctl"},
		{"to a member", direct.subject, "sh.shop.n.w2.0000000000000001.3"},
		{"to a client", client.subject, "sh.shop.r.w2.0000000000000001.ctl.f"},
		{"answer", replySubject(direct.reply, 255), "sh.shop.r.web-1.0000000000c0ffee.3.u.w2.0000000000000001.ff"},
		{"anycast answer", replySubject(ctl.anycast, 255), "sh.shop.r.web-1.0000000000c0ffee.ctl.a.ff"},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %s, want %s", test.what, test.got, test.want)
		}
	}
}

// The longest reply subject fits the buffer, and so costs one allocation.
func TestReplySubjectFits(t *testing.T) {
	long := transport.Address{Name: strings.Repeat("n", transport.MaxNameBytes), Incarnation: math.MaxUint64}
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

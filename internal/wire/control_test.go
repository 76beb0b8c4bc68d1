package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/transport"
)

func TestControlRoundTrip(t *testing.T) {
	from := transport.Peer{Address: transport.Address{Name: "a", Incarnation: 1 << 63}, Client: true}
	b := SealControl("shop", from, ControlTopic_CONTROL_TOPIC_GATEWAY, []byte("body"))
	gotFrom, topic, body, err := OpenControl("shop", b)
	if err != nil || gotFrom != from || topic != ControlTopic_CONTROL_TOPIC_GATEWAY || string(body) != "body" {
		t.Errorf("got %v, %v, %q, %v", gotFrom, topic, body, err)
	}
}

func TestOpenControlRefuses(t *testing.T) {
	sealed := func(change func(*Control)) []byte {
		c := &Control{Format: ControlFormat, Cluster: "shop", From: "a", Incarnation: 1}
		change(c)
		b, err := proto.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, test := range []struct {
		name string
		b    []byte
		want string
	}{
		{"nothing", nil, "format 0"},
		{"noise", []byte("GET / HTTP/1.1"), "read control message"},
		{"a later format", sealed(func(c *Control) { c.Format = ControlFormat + 1 }), fmt.Sprint("format ", ControlFormat+1)},
		{"another cluster", sealed(func(c *Control) { c.Cluster = "other" }), `"other": want "shop"`},
		{"a long cluster", sealed(func(c *Control) { c.Cluster = strings.Repeat("x", 1000) }), "want"},
		{"no sender", sealed(func(c *Control) { c.From = "" }), "sender"},
		{"a wildcard for a sender", sealed(func(c *Control) { c.From = ">" }), "sender"},
		{"cut off", sealed(func(*Control) {})[:5], "read control message"},
	} {
		if _, _, _, err := OpenControl("shop", test.b); err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 300 {
			t.Errorf("%s: got %v, want an error that says %q", test.name, err, test.want)
		}
	}
}

// FuzzOpenControl: an accepted message is well formed, and sealing it again gives the same result.
func FuzzOpenControl(f *testing.F) {
	f.Add(SealControl("shop", transport.Peer{Address: transport.Address{Name: "a", Incarnation: 1}}, ControlTopic_CONTROL_TOPIC_MEMBERSHIP, []byte("body")))
	f.Fuzz(func(t *testing.T, b []byte) {
		from, topic, body, err := OpenControl("shop", b)
		if err != nil {
			return
		}
		if err := transport.CheckName("sender", from.Name); err != nil {
			t.Fatal(err)
		}
		again, topicAgain, bodyAgain, err := OpenControl("shop", SealControl("shop", from, topic, body))
		if err != nil || again != from || topicAgain != topic || !bytes.Equal(bodyAgain, body) {
			t.Fatalf("opened %v %v %q, and sealed again %v %v %q, %v", from, topic, body, again, topicAgain, bodyAgain, err)
		}
	})
}

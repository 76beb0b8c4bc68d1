package idle

import (
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/membership/message"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

func TestTraffic(t *testing.T) {
	a := transport.Address{Name: "a", Incarnation: 1}
	seal := func(m membership.Message) []byte {
		body, err := membership.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		return wire.SealControl("c", transport.Peer{Address: a}, wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, body)
	}
	traffic := Traffic{Nodes: 3, Length: 2 * time.Second, kinds: map[string]*share{}}
	hello, alive, echo := seal(message.Hello{Attempt: 1}), seal(message.Alive{Founder: a, Size: 1}), seal(message.Echo{})
	traffic.count("c", "sh.c.m.b.0000000000000002.ctl", "reply", hello)
	traffic.count("c", "sh.c.m.all", "", alive)
	traffic.count("c", "sh.c.m.a.0000000000000001.ctl", "reply", echo)
	traffic.count("c", "sh.c.m.b.0000000000000002.0", "", []byte("a frame"))
	for kind, want := range map[string]share{
		"membership.Hello": {sent: 1, received: 1, payload: 2 * len(hello), subjects: 2 * 34},
		"membership.Alive": {sent: 1, received: 2, payload: 3 * len(alive), subjects: 3 * 10, echoes: 1, echoed: len(alive) + 10},
		"membership.Echo":  {sent: 1, echoes: 1, echoed: 2 * (len(echo) + 34)},
		"data":             {sent: 1, received: 1, payload: 14, subjects: 54},
	} {
		if got := traffic.kinds[kind]; got == nil || *got != want {
			t.Errorf("%s: got %+v, want %+v", kind, got, want)
		}
	}
	var text strings.Builder
	if err := traffic.Print(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 7 || !strings.HasPrefix(lines[6], "| all") || !strings.Contains(lines[6], "| 0.67") {
		t.Errorf("printed\n%s", &text)
	}
}

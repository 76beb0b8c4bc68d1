package operator

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

var (
	web1 = transport.Address{Name: "web-1", Incarnation: 0xa}
	web2 = transport.Address{Name: "web-2", Incarnation: 0xb}
)

func someAnswer() *Answer {
	return &Answer{
		Refusal: "no", View: View{
			Self: web1, Status: membership.Up, Waits: true, Founder: web2, Leader: web1, Converged: true, Why: "x",
			Members: []Member{
				{Address: web1, Status: membership.Up, Age: 1, Reachable: true, Roles: []string{"web"}, Hosts: []string{"Cart", "Stock"}},
				{Address: web2, Status: membership.Down, Evidence: "gone"},
			},
			Singletons: []Singleton{
				{Kind: "Chief", Node: web1, Hosts: []transport.Address{web1, web2}},
				{Kind: "Mail", Why: "web-2 has not answered yet", Hosts: []transport.Address{web2}},
			},
		}, Entities: []Entity{{Kind: "Cart", ID: "7", Node: web1, State: []byte{}, Why: "no"}, {Kind: "Cart", ID: "8", Active: true}},
		Types: []Type{{Kind: "Cart", Shards: 4, Homeless: []uint32{5, 7}, Waiting: 3, Held: []Shard{{4, "active", 2, 1, 0, 0.5}, {6, "sent", 0, 0, 9, 0}}, Instances: 2, Wanted: 3, Durable: true}, {Kind: "Stock"}},
		Where: Home{5, "web-1", "1.4", "least loaded", time.Unix(9, 0)}, Counters: map[string]uint64{"tell lost": 1},
		IDs: []string{"7", "\xff"}, More: true,
		Minutes: someMinutes(), Feeds: []Feed{{"orders", 1, "orders@1", 5, 9, 2, 1, 3, "web-1", time.Unix(3, 4), "it waits"}},
		Reminders: []Reminder{{"r", "M", time.UnixMilli(7).UTC(), time.Second, "* * * * *", "UTC", "why"}},
	}
}

func someMinutes() []Minute {
	return []Minute{{At: time.Unix(60, 0).UTC(), Lasted: time.Minute, Used: 0.5, Memory: 7, Types: []TypeMinute{{Kind: "Cart", Failed: 1, Took: []Bucket{{3, 2}, {90, 1}}, Commits: []Bucket{{4, 5}}}, {Kind: "Stock"}}}}
}

func TestEncode(t *testing.T) {
	request := &Request{Command: Down, Node: web2, Seeds: []string{"a", "b"}, Force: true, Entity: Entity{Kind: "Cart", ID: "7", State: []byte("s")}, List: Listing{"de-", "de-\xff", 7, true, "State=open"}, Reminder: "r"}
	for _, tt := range []struct {
		r *Request
		a *Answer
	}{{request, nil}, {nil, someAnswer()}, {&Request{}, nil}, {nil, &Answer{}}} {
		b, err := Encode(7, tt.r, tt.a)
		if err != nil {
			t.Fatal(err)
		}
		id, r, a, err := Decode(b)
		if err != nil || id != 7 || !reflect.DeepEqual(r, tt.r) || !reflect.DeepEqual(a, tt.a) {
			t.Errorf("decoded %d %+v %+v, %v; want 7 %+v %+v", id, r, a, err, tt.r, tt.a)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	both, err := proto.Marshal(&wire.Admin{Request: &wire.AdminRequest{}, Answer: &wire.AdminAnswer{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{nil, {0xff}, both} {
		if _, _, _, err := Decode(b); err == nil || !strings.Contains(err.Error(), "decode admin message") {
			t.Errorf("decode %x: error %v", b, err)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, tt := range []struct {
		r *Request
		a *Answer
	}{{}, {&Request{}, &Answer{}}} {
		if b, err := Encode(7, tt.r, tt.a); err == nil {
			t.Errorf("%+v with %+v was encoded as %x", tt.r, tt.a, b)
		}
	}
}

func TestCommandNames(t *testing.T) {
	for c := Members; c.Known(); c++ {
		if strings.Contains(c.String(), "(") {
			t.Errorf("command %d has no name", c)
		}
	}
	if got := Command(99).String(); got != "Command(99)" {
		t.Errorf("command 99 is called %q", got)
	}
}

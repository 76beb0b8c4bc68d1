package membership

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// FuzzReceive checks that a member survives every message that can be decoded, from
// members, strangers and itself.
func FuzzReceive(f *testing.F) {
	a, b := addr("a", 1), addr("b", 1<<63)
	state := gossip.Preformed([]gossip.Member{{Address: a}, {Address: b}})
	for _, m := range []message.Message{
		message.Hello{Attempt: 3, Seeds: []string{"a"}},
		message.Join{Target: 1, Roles: []string{"web"}, Meta: []gossip.KeyValue{{Key: "k", Value: "v"}}},
		message.Welcome{Target: 1, State: state},
		message.Gossip{Target: 1, State: state},
		message.Status{Target: 1, Members: 2, Seen: state.Seen},
		message.Heartbeat{Target: 1, Seq: 9, Server: 5, Heard: 4, Bound: true},
		message.HeartbeatAck{Target: 1, Seq: 1},
		message.Alive{Founder: b, Size: 9},
		message.Vote{Target: 1, Seq: 3, Voters: 7},
		message.VoteAck{Target: 1, Seq: 1, Majority: time.Second},
		message.Removal{Target: 1},
	} {
		bytes, err := message.Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		m, err := message.Decode(bytes)
		if err != nil {
			return
		}
		w := newNetwork(t)
		n := w.add("a", "s1", core.Config{Cluster: "test", Self: a})
		n.quiet = true
		w.start(n)
		w.run(time.Second, nil)
		for _, from := range []transport.Address{b, addr("c", 3), a, {}} {
			w.step(n, core.Receive{From: from, Message: m})
			w.run(3*time.Second, nil)
		}
	})
}

package membership

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
)

// TestAdmissionLeavesRoom: a node that would make the state larger than one message is refused with
// both sizes. The state with the admitted nodes still fits after all their later changes.
func TestAdmissionLeavesRoom(t *testing.T) {
	const limit = 8 << 10
	w := newNetwork(t)
	random := rand.New(rand.NewPCG(1, 2))
	a := w.add("a", "s1", core.Config{Cluster: "test", Self: addr("a", 1)})
	a.quiet = true
	a.machine.Step(w.now, core.MessageLimit{Bytes: limit})
	w.start(a)
	w.run(time.Second, nil)
	admitted := 0
	for i := uint64(2); i < 40; i++ {
		meta := []byte(strings.Repeat(" ", 500))
		for j := range meta {
			meta[j] = byte('!' + random.IntN(90))
		}
		out := a.machine.Step(w.now, core.Receive{From: addr(fmt.Sprint("n", i), i), Message: message.Join{Target: 1, Meta: []gossip.KeyValue{{Key: "k", Value: string(meta)}}}})
		for _, e := range out.Send {
			switch m := e.Message.(type) {
			case message.Welcome:
				admitted++
			case message.JoinRefused:
				if m.Final || !strings.Contains(m.Reason, "8192") || !strings.Contains(m.Reason, "bytes with it") {
					t.Fatalf("got %v, want a refusal that names both sizes and is not for ever", m)
				}
			}
		}
	}
	if admitted < 3 || admitted > 15 {
		t.Fatalf("%d were admitted, want a few", admitted)
	}
	for step := range 300 { // none of them answers: they are accused, downed and removed
		w.now = w.now.Add(100 * time.Millisecond)
		a.machine.Step(w.now, core.Tick{})
		b, err := message.Encode(message.Gossip{State: a.machine.node.Gossip})
		if err != nil || len(b) > limit {
			t.Fatalf("step %d: the state has %d bytes: want at most %d (%v)", step, len(b), limit, err)
		}
	}
}

// TestLimitShrinks: if the state no longer fits after the limit shrank, an event reports that, and
// no member goes down.
func TestLimitShrinks(t *testing.T) {
	w := newNetwork(t)
	a := w.add("a", "s1", core.Config{Cluster: "test", Self: addr("a", 1), Meta: []gossip.KeyValue{{Key: "k", Value: strings.Repeat("x", 300)}}})
	w.start(a)
	w.run(time.Second, nil)
	out := a.machine.Step(w.now, core.MessageLimit{Bytes: 100})
	if len(out.Events) != 1 {
		t.Fatalf("got %v, want one event", out.Events)
	}
	if e, ok := out.Events[0].(core.StateTooLarge); !ok || e.Limit != 100 || e.Bytes < 300 {
		t.Errorf("got %v, want the size and the limit", out.Events[0])
	}
	if status := a.machine.View().SelfStatus; status != gossip.Up {
		t.Errorf("it is %v, want up", status)
	}
}

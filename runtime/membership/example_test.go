package membership_test

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// A driver passes inputs and the time, and carries out the outputs. This one is also the broker of
// its only node. Its time jumps to the next wake-up.
func ExampleMachine() {
	self := transport.Address{Name: "web-1", Incarnation: 7}
	m, err := membership.New(membership.Config{Cluster: "shop", Self: self})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(0, 0)
	inputs := []membership.Input{membership.ConnState{Connected: true, Server: "nats-1"}, membership.Start{}}
	for m.View().SelfStatus != membership.Up {
		in := membership.Input(membership.Tick{})
		if len(inputs) > 0 {
			in, inputs = inputs[0], inputs[1:]
		}
		out := m.Step(now, in)
		for _, e := range out.Events {
			fmt.Println(e)
		}
		for _, e := range out.Send {
			if e.Broadcast || e.To == self {
				inputs = append(inputs, membership.Receive{From: self, Message: e.Message})
			}
		}
		if len(inputs) == 0 {
			now = out.WakeAt
		}
	}
	oldest, _ := m.View().Oldest(membership.Up, membership.Leaving)
	fmt.Println("oldest:", oldest.Member)
	// Output:
	// formed by web-1#0000000000000007
	// joined web-1#0000000000000007
	// up web-1#0000000000000007 age=1
	// leader web-1#0000000000000007
	// converged
	// oldest: web-1#0000000000000007 up 1
}

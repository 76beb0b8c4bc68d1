package coordinator_test

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// Two members host carts. The shards get a home when somebody asks for one, and
// every process follows the table.
func ExampleCoordinator() {
	a, b := transport.Address{Name: "a", Incarnation: 1}, transport.Address{Name: "b", Incarnation: 1}
	term := placement.Term{Number: 1, Incarnation: a.Incarnation}
	c, err := coordinator.New(coordinator.Config{Self: a, Term: term})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(0, 0)
	c.Step(now, coordinator.View{Converged: true, Members: []coordinator.Member{
		{Address: a, Status: membership.Up, Hosts: true},
		{Address: b, Status: membership.Up, Hosts: true},
	}})
	carts := coordinator.TypeInfo{Name: "Cart", Package: "shop", Shards: 4, HashName: "xxh64", Hosts: true}
	for _, node := range []transport.Address{a, b} {
		c.Step(now, coordinator.Receive{From: node, Message: coordinator.Register{
			Term: term, Node: node, Seq: 1, Types: []coordinator.TypeInfo{carts},
		}})
	}
	out := c.Step(now, coordinator.Receive{From: b, Message: coordinator.Ask{Type: "Cart"}})
	fmt.Println(len(out.Send) > 0) // the table is sent to all members

	for e := range c.Table().Type("Cart").All() {
		fmt.Println(e.ShardID, "at", e.Home.Name, "under", e.Epoch)
	}
	// Output:
	// true
	// Cart/4 at a under 1.1
	// Cart/5 at b under 1.1
	// Cart/6 at a under 1.1
	// Cart/7 at b under 1.1
}

package region_test

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A call runs at once or waits for its entity's turn. If the shard moves, the call follows it.
func ExampleShard() {
	a, b := transport.Address{Name: "a", Incarnation: 1}, transport.Address{Name: "b", Incarnation: 1}
	now := time.Unix(0, 0)
	first, second := placement.MakeEpoch(1, 1), placement.MakeEpoch(1, 2)
	s := region.New(placement.ShardID{Kind: "Cart", Shard: 4}, a, region.Limits{Mailbox: 10, Waiting: 10})
	s.Place(a, first, false, 0, now)
	fmt.Println(s.State(), "at", s.Home().Name)

	call := func(entity string) *region.Call {
		return &region.Call{Entity: entity, Sender: transport.Peer{Address: b}, Epoch: first}
	}
	cart, verdict := s.Deliver(call("42"), 0, now)
	fmt.Println("the first call:", verdict)
	_, verdict = s.Deliver(call("42"), 0, now)
	fmt.Println("the second:", verdict)
	next, _ := s.End(cart, 0)
	fmt.Println("then it runs:", next != nil)

	s.BeginMove(b, second)
	fmt.Println(s.State(), "until its turns have ended")
	_, drained := s.End(cart, 0)
	s.Stop() // and the driver runs the stop hooks
	_, sent := s.Stopped(second, 0)
	fmt.Println(drained, sent, s.State())
	s.Ready(b, second)
	_, verdict = s.Deliver(call("42"), 0, now)
	fmt.Println(s.State(), "to", s.Home().Name, "and a late call:", verdict)
	// Output:
	// open at a
	// the first call: run
	// the second: queued
	// then it runs: true
	// draining until its turns have ended
	// true true sent
	// forwarding to b and a late call: forward
}

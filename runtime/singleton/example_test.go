package singleton_test

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// The instance moves from the oldest member to the next when the oldest leaves. This driver is both
// nodes: it delivers messages and does what the managers ask, without starting or stopping anything
// real.
func ExampleManager() {
	a, b := transport.Address{Name: "a", Incarnation: 1}, transport.Address{Name: "b", Incarnation: 1}
	managers := map[transport.Address]*singleton.Manager{}
	for _, self := range []transport.Address{a, b} {
		m, err := singleton.New(singleton.Config{Name: "mail", Self: self, HandoffAt: membership.Leaving})
		if err != nil {
			fmt.Println(err)
			return
		}
		managers[self] = m
	}
	now := time.Unix(0, 0)
	var step func(self transport.Address, in singleton.Input)
	step = func(self transport.Address, in singleton.Input) {
		out := managers[self].Step(now, in)
		if out.StartInstance {
			fmt.Println("starts at", self.Name)
			step(self, singleton.InstanceStarted{})
		}
		if out.StopInstance {
			fmt.Println("stops at", self.Name)
			step(self, singleton.InstanceStopped{})
		}
		for _, e := range out.Send {
			step(e.To, singleton.Receive{From: self, Message: e.Message})
		}
	}
	for _, status := range []membership.Status{membership.Up, membership.Leaving} {
		fmt.Println("a is", status)
		view := singleton.View{Members: []singleton.Member{
			{Address: a, Status: status, UpNumber: 1},
			{Address: b, Status: membership.Up, UpNumber: 2},
		}}
		step(a, view)
		step(b, view)
	}
	fmt.Println("a:", managers[a].State(), "b:", managers[b].State())
	// Output:
	// a is up
	// starts at a
	// a is leaving
	// stops at a
	// starts at b
	// a: end b: oldest
}

// A caller searches for the instance at the oldest member.
func ExampleProxy() {
	a := transport.Address{Name: "a", Incarnation: 1}
	p, err := singleton.NewProxy(singleton.ProxyConfig{Name: "mail"})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(0, 0)
	p.Step(now, singleton.View{Members: []singleton.Member{{Address: a, Status: membership.Up, UpNumber: 1}}})
	out := p.Step(now, singleton.Want{})
	fmt.Println(out.Send[0].To.Name, out.Send[0].Message.Type, p.Why())
	out = p.Step(now, singleton.Receive{From: a, Message: singleton.Message{
		Name: "mail", Type: singleton.Identity, ID: out.Send[0].Message.ID, Instance: a, Epoch: 1,
	}})
	fmt.Println("found at", out.Found.Node.Name)
	// Output:
	// a Identify a has not answered yet
	// found at a
}

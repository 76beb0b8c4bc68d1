package shard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
	"github.com/shardgen/shardgen/transport/memory"
)

// muteMember runs a member that joins, answers heartbeats, claims to host a type, and never answers
// the coordinator. It stops when its state machine has ended, or with ctx.
func muteMember(ctx context.Context, t *testing.T, broker *memory.Broker) (ended <-chan []string) {
	t.Helper()
	self := transport.Peer{Address: transport.Address{Name: "mute", Incarnation: 99}}
	connected := make(chan transport.State, 64)
	link, err := broker.Transport().Open(ctx, transport.Options{
		Cluster: "test", Self: self.Address, Lanes: 4,
		OnState: func(ch transport.Channel, s transport.State) {
			if ch == transport.Control {
				connected <- s
			}
		},
	})
	require.NoError(t, err)
	machine, err := membership.New(membership.Config{
		Self: self.Address, Cluster: "test", Meta: []membership.KeyValue{{Key: "kind/Mute", Value: "256 xxh64 example.com/mute"}},
	})
	require.NoError(t, err)
	done := make(chan []string, 1)
	go func() {
		defer func() { _ = link.Close() }()
		var events []string
		step := func(in membership.Input) {
			out := machine.Step(time.Now(), in)
			for _, e := range out.Events {
				events = append(events, e.String())
			}
			for _, e := range out.Send {
				body, err := membership.Encode(e.Message)
				if err != nil {
					panic(err)
				}
				b := wire.SealControl("test", self, wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, body)
				if e.Broadcast {
					_ = link.Broadcast(b)
				} else {
					_ = link.Send(transport.Control, transport.Peer{Address: e.To}, 0, b)
				}
			}
		}
		s := <-connected
		step(membership.ConnState(s))
		step(membership.Start{})
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for machine.View().SelfStatus != membership.Removed {
			select {
			case <-ctx.Done():
				done <- events
				return
			case <-tick.C:
			}
			for m, ok := link.TryReceive(transport.Control); ok; m, ok = link.TryReceive(transport.Control) {
				if m.Kind == transport.Unreachable {
					continue
				}
				from, topic, body, err := wire.OpenControl("test", m.Payload)
				if err != nil || topic != wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP {
					continue
				}
				if msg, err := membership.Decode(body); err == nil {
					step(membership.Receive{From: from.Address, Message: msg, Server: m.Server})
				}
			}
			step(membership.Tick{})
		}
		done <- events
	}()
	return done
}

// TestQuarantine: a member that answers heartbeats and not the coordinator is quarantined. It stops
// when it learns of that, and is removed.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Membership.QuarantineAfter = 5 * time.Second }
	a := c.start("a")
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	events := follow(ctx, a)
	ended := muteMember(ctx, t, c.broker)
	await(t, events, shard.EventUp, "mute")
	up := time.Now()
	await(t, events, shard.EventQuarantined, "mute")
	require.GreaterOrEqual(t, time.Since(up), 4*time.Second)
	told := <-ended
	require.Contains(t, told[len(told)-1], "required messages could not be delivered to this node")
	await(t, events, shard.EventRemoved, "mute")
}

package shard

import (
	"context"
	"testing"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestStateOfASingletonThatNobodyRunsHoldsNobodyUp: all members leave at once. One of them has got
// the singleton's state from the former node, but may not start the instance. It drops the state
// instead of waiting for LeaveTimeout.
func TestStateOfASingletonThatNobodyRunsHoldsNobodyUp(t *testing.T) {
	n := New(Config{Cluster: "test", Name: "n1"})
	kind := codegen.Kind{
		Name: "Leader", Package: "example.com/leader", Shards: 1, HashName: "xxh64", Singleton: true, Methods: []string{"Do"},
	}
	do := func(context.Context, any, []byte, []byte) ([]byte, error) { return nil, nil }
	err := n.Host(codegen.Host{Kind: kind, New: func() any { return new(struct{}) }, Dispatch: map[string]codegen.Method{"Do": do}})
	if err != nil {
		t.Fatal(err)
	}
	n.control.link = node.NoLink{}
	if err := n.control.member.Prepare(controlSetup(n)); err != nil {
		t.Fatal(err)
	}
	core := n.hosted()[0].Shards[0].Core
	for _, last := range []bool{false, true} {
		epoch := max(core.Epoch(), core.MoveEpoch()) + 1
		core.Prepare(transport.Address{Name: "n2", Incarnation: 2}, placement.Epoch(epoch), nil, last)
		if core.State() == region.Closed {
			t.Fatalf("%v: nothing is held after a part of the state has come", core.State())
		}
		if !n.control.member.Singletons().Settled() || core.State() != region.Closed {
			t.Errorf("last part %v: the shard is %v and holds the node up, want closed", last, core.State())
		}
	}
}

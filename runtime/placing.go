package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/transport"
)

// PlaceShards pins shards of a type to nodes. For shard numbers (see the type's
// Extractor), homes has the name of the node at which each should live; "" withdraws a
// pin. Like other moves, these begin once the view has converged. The shards stay as
// long as that node hosts the type; while it does not, the type's [Allocation] places
// them.
//
// PlaceShards returns nil when every member that hosts types has confirmed the pins.
// They then survive a change of the coordinator and restarts of members, but not a
// restart of all members at once. PlaceShards does not wait for the moves. It may be
// called at any member.
func (n *Node) PlaceShards(ctx context.Context, kind string, homes map[uint32]string) error {
	fail := func(err error) error { return fmt.Errorf("place shards of %s: %w", clip(kind), err) }
	var pins []coordinator.Pin
	for shard, node := range homes {
		pins = append(pins, coordinator.Pin{Shard: shard, Node: node})
	}
	slices.SortFunc(pins, func(a, b coordinator.Pin) int { return cmp.Compare(a.Shard, b.Shard) })
	if err := coordinator.CheckPins(kind, pins); err != nil {
		return fail(err)
	}
	var refused string
	err := inquire(ctx, n.control, func(id uint64) bool {
		n.control.member.ToCoordinator(coordinator.SetPins{ID: id, Type: kind, Pins: pins})
		return false
	}, func(_ transport.Address, m coordinator.Message) bool {
		done, ok := m.(coordinator.PinsSet)
		refused = done.Reason
		return ok
	})
	switch {
	case err != nil:
		return fail(fmt.Errorf("%w: not every member has confirmed it (call PlaceShards again; repeating a pin has no effect)", err))
	case refused != "":
		return fail(errors.New(refused))
	}
	return nil
}

package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/transport"
)

// PlaceShards wishes for the homes of shards of a type: homes says for shard
// numbers (as the type's Extractor tells) at which node, by name, each should
// live; "" takes a wish back. Such shards move there, as other moves do once the
// view has converged, and stay as long as that node hosts the type; while it does
// not, they live where the type's [Allocation] puts them.
//
// PlaceShards returns nil when every member that hosts types keeps the wishes, so that
// they outlive the coordinator and restarts of members, but not a restart of all members
// at once. It does not wait for the moves. Any member may call it.
func (n *Node) PlaceShards(ctx context.Context, kind string, homes map[uint32]string) error {
	fail := func(err error) error { return fmt.Errorf("place shards of %s: %w", clip(kind), err) }
	var pins []coordinator.Pin
	for shard, node := range homes {
		pins = append(pins, coordinator.Pin{Shard: shard, Node: node})
	}
	slices.SortFunc(pins, func(a, b coordinator.Pin) int { return cmp.Compare(a.Shard, b.Shard) })
	if err := coordinator.CheckPlace(kind, pins); err != nil {
		return fail(err)
	}
	var refused string
	err := inquire(ctx, n.control, func(id uint64) bool {
		n.control.member.ToCoordinator(coordinator.Place{ID: id, Kind: kind, Pins: pins})
		return false
	}, func(_ transport.Address, m coordinator.Message) bool {
		done, ok := m.(coordinator.PlaceDone)
		refused = done.Reason
		return ok
	})
	switch {
	case err != nil:
		return fail(fmt.Errorf("%w: not every member has confirmed it (place them again, which changes nothing that is there)", err))
	case refused != "":
		return fail(errors.New(refused))
	}
	return nil
}

package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/coordinator"
)

// poolSettings are the options of a pool as the user gave them. announced is set by validatePool.
type poolSettings struct {
	set         bool
	least, most int
	perNode     *int
	survive     func(nodes int) int
	announced   coordinator.Pool
}

// PoolSize bounds the number of instances of a pool. min is 1 or more; max is at most the shards=
// of the directive, which is 256 by default. Within the bounds, the pool has as many instances as
// [Survive] and its load, or Node.SizePool, require. Default: 1 to shards=. Members may differ: the
// value of the last member to join counts.
func PoolSize(min, max int) HostOption {
	return func(s *hostSettings) { s.pool.set, s.pool.least, s.pool.most = true, min, max }
}

// PerNode sets the largest number of instances of a pool at one member to n; 0 means any number.
// Default 1. With such a limit, the whole pool has at most n instances for each Up member that
// hosts it, even if that is below the pool's minimum. While an instance is ending at a member or
// moving away from it, the member may have n+1. If members set different values, the value of the
// last member to join counts.
func PerNode(n int) HostOption {
	return func(s *hostSettings) { s.pool.set, s.pool.perNode = true, &n }
}

// Survive sets how many members may fail at once, without losing the last instance of a pool: f gets
// the number of members that are Up and host the pool, and returns 0 or more, but fewer than that. The
// pool then has an instance at f(nodes)+1 members at least, if its maximum allows. f is called at the
// start for 1 to 256 members; for more members, its value for 256 counts. Default: f returns 0. Members
// may differ: the highest value counts.
func Survive(f func(nodes int) int) HostOption {
	return func(s *hostSettings) { s.pool.set, s.pool.survive = true, f }
}

// An InstanceInfo identifies an instance of a pool.
type InstanceInfo struct {
	Index int // the number of this instance, from 0
	Count int // the number of instances of the pool, as far as this process knows; more than Index
}

// Instance returns which instance of a pool the turn of ctx belongs to: ctx is the context of a method
// or of OnActivate. It fails for other contexts.
func Instance(ctx context.Context) (InstanceInfo, error) {
	index, count, err := node.InstanceOf(ctx)
	return InstanceInfo{index, count}, err
}

// validatePool checks a pool's options and fills in defaults. It refuses them for other types.
func (s *hostSettings) validatePool(k codegen.Kind) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("host %s: "+format, append([]any{k.Name}, args...)...)
	}
	p := &s.pool
	if !k.Pool {
		if p.set {
			return fault("PoolSize, PerNode and Survive are for types with //shard:pool")
		}
		return nil
	}
	if p.least == 0 && p.most == 0 {
		p.least, p.most = 1, k.Shards
	}
	if p.perNode == nil {
		p.perNode = new(1)
	}
	for _, o := range []struct {
		set bool
		why string
	}{
		{s.place != nil, "Allocation: the instances of a pool are placed round the members"},
		{s.idleSet && s.Idle != 0, "IdleAfter: the instances of a pool are always active"},
		{s.MaxActive != 0, "MaxActive: the instances of a pool are always active"},
		{s.remember != nil, "Remember: the instances of a pool are always active"},
		{p.least < 1 || p.most < p.least || p.most > k.Shards, fmt.Sprintf("PoolSize(%d, %d): want 1 to %d, and the first not above the second (the directive's shards= raises the bound)", p.least, p.most, k.Shards)},
		{*p.perNode < 0 || *p.perNode > k.Shards, fmt.Sprintf("PerNode(%d): want 0 for any number, or 1 to %d", *p.perNode, k.Shards)},
	} {
		if o.set {
			return fault("%w", errors.New(o.why))
		}
	}
	s.Idle = 0
	p.announced = coordinator.Pool{Min: uint32(p.least), Max: uint32(p.most), PerNode: uint32(*p.perNode)}
	if p.survive != nil {
		var err error
		if p.announced.Survive, err = coordinator.FormatSurvive(p.survive); err != nil {
			return fault("Survive: %w", err)
		}
	}
	return nil
}

// poolHandoff is how an instance of a pool moves: the next one is ready before it ends.
var poolHandoff = region.Handoff{Serving: true, Unordered: true}

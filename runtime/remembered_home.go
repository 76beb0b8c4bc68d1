package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/remembering"
)

// rememberedHome is a shard of a type whose entities are remembered as package remembering
// uses it.
type rememberedHome hostedShard

var _ remembering.Home = (*rememberedHome)(nil)

func (v *rememberedHome) shard() *hostedShard { return (*hostedShard)(v) }

// MayRun reports whether a turn may begin at this moment.
func (v *rememberedHome) MayRun() bool { return v.shard().mayRun() }

// Ticks is the coarse clock by which entities go to rest.
func (v *rememberedHome) Ticks() uint32 { return v.host.plane.clock.Load() }

// EndTurn ends the turn of an entity and begins the next one.
func (v *rememberedHome) EndTurn(e *region.Entity) { v.shard().endTurn(e) }

// Start activates an entity in a turn that is nobody's call.
func (v *rememberedHome) Start(e *region.Entity, ended func(error)) {
	pl := v.host.plane
	ctx, cancel := context.WithTimeout(pl.ctx, pl.cfg.CallTimeout)
	defer cancel()
	t := &turn{parent: ctx, entity: e}
	err := errors.New("runtime.Goexit in OnActivate or the factory")
	defer func() { // also when the hook ends this goroutine
		ended(err)
		var failed *failure
		if err != nil {
			failed = &failure{"OnActivate", fmt.Errorf("%w: %w", ErrActivation, err)}
		}
		t.end()
		v.shard().endTurnOf(t, failed)
	}()
	err = v.shard().wake(t, e)
}

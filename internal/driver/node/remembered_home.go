package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/remembering"
)

type rememberedHome HostedShard

var _ remembering.Home = (*rememberedHome)(nil)

func (v *rememberedHome) shard() *HostedShard { return (*HostedShard)(v) }

// MayRun reports whether a turn may begin now.
func (v *rememberedHome) MayRun() bool { return v.shard().mayRun() }

// Ticks returns the time of the coarse clock, which also decides which entities are idle.
func (v *rememberedHome) Ticks() uint32 { return v.Host.driver.Clock.Load() }

// EndTurn ends the turn of an entity and begins the next one.
func (v *rememberedHome) EndTurn(e *region.Entity) { v.shard().FinishTurn(e) }

// Activate activates an entity in a turn that has no call.
func (v *rememberedHome) Activate(e *region.Entity, ended func(error)) {
	drv := v.Host.driver
	ctx, cancel := context.WithTimeout(drv.Context, drv.Config.CallTimeout)
	defer cancel()
	t := &turn{parent: ctx, entity: e}
	err := errors.New("runtime.Goexit in OnActivate or the factory")
	defer func() { // also when the hook ends this goroutine
		ended(err)
		var failed *failure
		if err != nil {
			failed = &failure{method: "OnActivate", err: fmt.Errorf("%w: %w", ErrActivation, err)}
		}
		t.end()
		v.shard().endTurnOf(e, t.after(), failed)
	}()
	err = v.shard().activateNow(t, e)
}

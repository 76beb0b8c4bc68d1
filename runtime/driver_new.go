package shard

import (
	"context"
	"runtime"
	"time"

	"github.com/shardgen/shardgen/internal/calls"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/transport"
)

// newDriver makes the driver of a process that is not connected yet.
func newDriver(cfg config, self transport.Peer, ctl controlPlane) *driver {
	drv := &driver{
		cfg: cfg, self: self, log: cfg.Logger, ctl: ctl, checksTurns: checksTurns(),
	}
	drv.group.Init()
	drv.budget = region.NewBudget(cfg.BufferBytes)
	drv.ctx, drv.halt = context.WithCancel(context.Background())
	drv.stop = drv.ctx.Done()
	drv.turning.init(drv.ctx)
	if cfg.Store != nil {
		drv.durable = &durablehost.Process{
			Cluster: cfg.Cluster, Store: cfg.Store, Ctx: drv.ctx, Log: cfg.Logger,
			Spawn: func(f func()) {
				if !drv.closed() {
					drv.group.Go(f)
				}
			},
			Send: outbox{drv}.send, GivenUp: outbox{drv}.givenUp,
		}
	}
	drv.kinds.Store(&map[string]*kind{})
	drv.data.Init((*dataEnv)(drv))
	drv.peers.Init(&peersEnv{driver: drv}, peers.Config{ // Start reports errors of cfg
		Self: self, Lanes: cfg.Lanes, Window: cfg.Window, MaxBuffered: cfg.MaxBuffered,
		AnswerBytes: cfg.AnswerBytes, Calls: &drv.pending.Coalescer, Direct: cfg.directEnabled(),
		Link: drv.link, MayAnswer: drv.lease.MayAnswer,
	})
	drv.pending.Init(calls.NewCaller)
	drv.lease.Init(time.Now())
	drv.watch.Init(drv.lease.Base())
	drv.runs = make([]turnRunner, max(runtime.GOMAXPROCS(0), minRunners))
	for i := range drv.runs {
		drv.runs[i].Init(&drv.group, &drv.watch, &drv.runs[i])
		drv.runs[i].SetMost(cfg.runnerBytes(len(drv.runs)))
	}
	return drv
}

// minRunners is the least number of runners of a process, so that turns that take just
// under a millisecond do not queue up behind each other.
const minRunners = 4

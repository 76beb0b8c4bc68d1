package node

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

// NewDriver makes the driver of a process that is not connected yet.
func NewDriver(cfg Config, self transport.Peer, ctl ControlPlane) *Driver {
	drv := &Driver{
		Config: cfg, Local: self, Logger: cfg.Logger, Control: ctl, ChecksTurns: checksTurns(),
	}
	drv.Group.Init()
	drv.Budget = region.NewBudget(cfg.BufferBytes)
	drv.Context, drv.halt = context.WithCancel(context.Background())
	drv.Stop = drv.Context.Done()
	drv.Turning.init(drv.Context)
	if cfg.Store != nil {
		drv.Durable = &durablehost.Process{
			Cluster: cfg.Cluster, Store: cfg.Store, Ctx: drv.Context, Log: cfg.Logger,
			Spawn: func(f func()) {
				if !drv.Closed() {
					drv.Group.Go(f)
				}
			},
			Send: outbox{drv}.send, GivenUp: outbox{drv}.givenUp,
		}
	}
	drv.Kinds.Store(&map[string]*Kind{})
	drv.Data.Init((*dataEnv)(drv))
	drv.Sessions.Init(&peersEnv{driver: drv}, peers.Config{ // Start reports errors of cfg
		Self: self, Lanes: cfg.Lanes, Window: cfg.Window, MaxBuffered: cfg.MaxBuffered,
		AnswerBytes: cfg.AnswerBytes, Calls: &drv.Pending.Coalescer, Direct: cfg.directEnabled(),
		Link: drv.Link, MayAnswer: drv.Lease.MayAnswer,
	})
	drv.Pending.Init(calls.NewCaller)
	drv.Lease.Init(time.Now())
	drv.watch.Init(drv.Lease.Base())
	drv.Runners = make([]TurnRunner, max(runtime.GOMAXPROCS(0), minRunners))
	for i := range drv.Runners {
		drv.Runners[i].Init(&drv.Group, &drv.watch, &drv.Runners[i])
		drv.Runners[i].SetMost(cfg.RunnerBytes(len(drv.Runners)))
	}
	return drv
}

// minRunners is the least number of runners of a process, so that turns that take just
// under a millisecond do not queue up behind each other.
const minRunners = 4

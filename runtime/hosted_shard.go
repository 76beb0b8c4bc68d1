package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/remembering"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
)

// hostedShard is one shard of a hosted type: the shard of package shardhost, which
// shardEnv joins to this process, and the state of its entities' hooks.
//
// Lock order: route.Mu, then Mu, then the session's lock.
type hostedShard struct {
	shardhost.Shard
	host       *host
	lane       int
	remembered *remembering.Shard // nil where entities are not remembered

	// Guarded by Mu.
	failures  map[string]failureRecord       // of entities that were restarted, by id
	resting   map[*region.Entity]*time.Timer // restarted, and waiting for their back-off
	turnEnded chan struct{}                  // closed when turns end; nil: nobody waits for that

	durable *durableShard // of a durable type; else nil

	unsent int // how often in a row the state did not encode for a move; StopEntities's
}

func (s *hostedShard) init(h *host, id placement.ShardID, cfg *shardhost.Config, l region.Limits) {
	s.host, s.lane = h, h.plane.laneOf(id.Shard)
	s.Init(id, (*shardEnv)(s), cfg, l)
	s.Core.Driver = s
	if h.remembered != nil {
		s.remembered = h.remembered.Shard(&s.Shard, (*rememberedHome)(s))
	}
}

func (s *hostedShard) plane() *plane { return s.host.plane }

// waitLease waits until turns may run here: see plane.waitLease. The turn of a singleton
// whose own lease is over never may.
func (s *hostedShard) waitLease(ctx context.Context) error {
	if err := s.plane().waitLease(ctx); err != nil {
		return err
	}
	if in := s.host.instance; in != nil && !in.LeaseValid() {
		return fmt.Errorf("run %s: %w", s.ID.Kind, errNoLease)
	}
	return nil
}

// mayRun reports whether a turn may begin at this moment.
func (s *hostedShard) mayRun() bool {
	return s.plane().lease.Valid() && (s.host.instance == nil || s.host.instance.LeaseValid())
}

// mayRunAt reports whether a turn may begin at a time of the lease's clock.
func (s *hostedShard) mayRunAt(now int64) bool {
	return s.plane().lease.ValidAt(now) && (s.host.instance == nil || s.host.instance.LeaseValid())
}

// activate is wake for an entity that may have to be remembered.
func (s *hostedShard) activate(t *turn, e *region.Entity) error {
	if s.remembered == nil {
		return s.wake(t, e)
	}
	t.yieldLane()
	return s.remembered.Activate(t, e.ID, func() error { return s.wake(t, e) })
}

// Direct notes whether this process's calls come straight here, as its route has it.
func (s *hostedShard) Direct(on bool) {
	if s.host.instance != nil || !s.host.settings.inline {
		return // a singleton's turns end under the lock; calls that may not run inline queue
	}
	s.Shard.Direct(on)
}

// enqueue brings an encoded call of this process to the shard. It reports false
// when the shard is not here any more, or the route left it meanwhile, and the
// call must look for its home anew: behind the route's Flush it would be late.
// An error is that there is no room for a tell, which its sender would not hear
// otherwise.
func (s *hostedShard) enqueue(e *wire.Envelope, current func() bool) (settled bool, err error) {
	if e.Type == wire.TypeTell {
		return s.enqueueTold(e, current)
	}
	pl := s.plane()
	at := time.Now()
	c := pl.newInCall(pl.self, e, s.lane, at)
	c.Args, c.ownsArgs = append(codegen.NewArgs(), e.Payload...), true
	if s.Accept(&c.Call, at, current) {
		return true, nil
	}
	c.recycle()
	return false, nil
}

// Enqueue is enqueue for an envelope that belongs to the shard already, when
// there is no looking anew.
func (s *hostedShard) Enqueue(e *wire.Envelope) {
	pl := s.plane()
	at := time.Now()
	if c := pl.newInCall(pl.self, e, s.lane, at); !s.Accept(&c.Call, at, nil) {
		pl.answerCode(c, wire.CodeMoved, "")
	}
}

// stop runs the stop hooks of the shard's entities, each when its turn is over.
func (s *hostedShard) stop(ctx context.Context) {
	for ended := s.stopIdle(); ended != nil; ended = s.stopIdle() {
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

// stopIdle rests every idle entity. If turns are left running it returns a channel that
// is closed when the next of them ends, else nil.
func (s *hostedShard) stopIdle() (ended <-chan struct{}) {
	s.releaseAll()
	s.Mu.Lock()
	idle := s.Core.Idle(^uint32(0), s.Core.Entities())
	if s.Core.WatchRunning() > len(idle) {
		if s.turnEnded == nil {
			s.turnEnded = make(chan struct{})
		}
		ended = s.turnEnded
	}
	s.Mu.Unlock()
	for _, e := range idle {
		s.rest(e, codegen.Stopping)
		s.endTurn(e)
	}
	return ended
}

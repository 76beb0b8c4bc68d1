package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/util/tasks"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/coordinator"
)

// The pause after a failed activation or task of an instance, before the next try, doubles from
// instancePause to instancePauseMax.
const (
	instancePause    = time.Second
	instancePauseMax = time.Minute
	instanceLook     = 10 * time.Second // interval of checks that an instance is active
)

// runInstance keeps the instance of a pool active until ctx ends.
func (h *Host) runInstance(ctx context.Context, i int) {
	s, anew, pause := &h.Shards[i], h.Parts.renewed(i), instancePause
	for h.driver.WaitLease(ctx) == nil {
		err := s.activateInstance(strconv.Itoa(i))
		if err == nil {
			pause = instancePause
			select {
			case <-anew:
			case <-time.After(instanceLook): // an activation by a call may have failed
			case <-ctx.Done():
				return
			}
			continue
		}
		if ctx.Err() != nil {
			return
		}
		h.driver.Limiter.Warn(h.driver.Logger, "an instance of a pool is not active, and is activated again", h.Desc.Name, "", "kind", h.Desc.Name, "instance", i, "after", pause, "err", err)
		if !tasks.Rest(ctx, pause) {
			return
		}
		pause = min(2*pause, instancePauseMax)
	}
}

// activateInstance activates the shard's entity, unless it is active or runs a turn.
func (s *HostedShard) activateInstance(id string) (err error) {
	s.Mu.Lock()
	e := s.Core.Take(id, s.driver().Clock.Load())
	s.Mu.Unlock()
	switch {
	case e == nil:
		return nil // a call activates it, or the shard moves
	case e.Value != nil:
		s.FinishTurn(e)
		return nil
	}
	(*rememberedHome)(s).Activate(e, func(failed error) { err = failed })
	return err
}

// A poolSample counts how busy the instances of a pool are at this node. Only the coarse clock's
// goroutine uses it.
type poolSample struct {
	ticks, instances, busy int // instances and busy are sums over the ticks
}

// Sample counts the instances of a pool that run a turn here. It is called at each ClockTick. Once
// in coordinator.LoadInterval it returns a report, if there are instances here.
func (h *Host) Sample() (l coordinator.PoolLoad, ok bool) {
	if !h.Desc.Pool {
		return l, false
	}
	p, s := h.Kind.Pool, &h.sample
	for _, i := range p.state.Load().near {
		s.instances++
		if e := h.Shards[i].look(&p.calls[i].ref); e != nil && e.Busy() {
			s.busy++
		}
	}
	if s.ticks++; s.ticks < int(coordinator.LoadInterval/ClockTick) {
		return l, false
	}
	l = coordinator.PoolLoad{
		Type: h.Desc.Name, Instances: uint32((s.instances + s.ticks - 1) / s.ticks), Busy: uint32(1000 * s.busy / s.ticks),
	}
	for _, i := range p.state.Load().near {
		l.Waiting += h.Shards[i].waiting(&p.calls[i].ref)
	}
	*s = poolSample{}
	return l, l.Instances > 0
}

// waiting returns the number of calls that wait for the shard or in the mailbox of the referenced
// entity.
func (s *HostedShard) waiting(r *codegen.Ref) uint32 {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	n := s.Core.Waiting()
	if e := s.look(r); e != nil {
		n += e.Mailbox()
	}
	return uint32(n)
}

var errTaskExited = errors.New("runtime.Goexit in a task")

// startTask, called in the instance's turn, starts a task of the instance.
func (s *HostedShard) startTask(task singlehost.Task) error {
	started := s.Host.Parts.start((*shardEnv)(s).part(), func(life context.Context) {
		pause := instancePause
		for {
			began, err := time.Now(), errTaskExited
			r := &taskRun{home: s, kind: s.ID.Kind, log: s.driver().Logger, life: life, task: task}
			r.run(func(failed error) { err = failed })
			if err == nil {
				return
			}
			if time.Since(began) > instancePauseMax {
				pause = instancePause
			}
			s.driver().Logger.Log(life, slog.LevelWarn, "a task of a pool's instance has failed, and runs again",
				"kind", s.ID.Kind, "instance", (*shardEnv)(s).part(), "after", pause, "err", err)
			if !tasks.Rest(life, pause) {
				return
			}
			pause = min(2*pause, instancePauseMax)
		}
	})
	if !started {
		return fmt.Errorf("start a task of %s: %w: the instance at %s is ending", s.ID.Kind, ErrClosed, s.driver().Local.Name)
	}
	return nil
}

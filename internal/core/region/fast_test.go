package region

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A body may be touched only in the turn of its entity. So the race detector sees two turns at the
// same time, or turns without a happens-before order.
type body struct {
	n      int
	inside bool
}

// A rig drives one shard for many goroutines at once, as package shard does.
type rig struct {
	t     *testing.T
	mu    sync.Mutex
	s     *Shard
	epoch placement.Epoch
	fast  atomic.Int64 // turns that began outside the lock
	ran   atomic.Int64
	ended sync.WaitGroup // handoffs
	tells chan func()    // for the one goroutine that runs them
	joins atomic.Int64   // tells that joined
}

// call makes one call, which begins its turn outside the lock if it can. It returns when the turn
// has run.
func (g *rig) call(id string, leave bool, ran func()) {
	for kept := g.s.Look(Hash(id), id); ; {
		e := kept // from the first look: by now it may be gone
		entry := Refused
		if e != nil {
			entry = e.Enter(1, 0)
		}
		switch entry {
		case Entered:
			g.fast.Add(1)
		case Withdrawn:
			g.end(e)
			e = nil
		case Refused:
			e = nil
		}
		if e == nil {
			g.mu.Lock()
			e = g.s.Begin(id, 1)
			g.mu.Unlock()
		}
		if e == nil {
			if e = g.wait(id); e == nil {
				runtime.Gosched()
				continue // not here now
			}
		}
		g.turn(e)
		ran()
		if leave {
			leave, _ = e.Leave(2)
		}
		if !leave {
			g.end(e)
		}
		return
	}
}

// tell makes one tell, which joins a turn if it can, and otherwise is a call. ran is called in its
// turn.
func (g *rig) tell(id string, ran func()) {
	e := g.s.Look(Hash(id), id)
	entry := Refused
	if e != nil {
		entry = e.Join(3, 1)
	}
	switch entry {
	case Entered:
		g.joins.Add(1)
		g.tells <- func() {
			g.turn(e)
			ran()
			if left, _ := e.Leave(2); !left {
				g.end(e)
			}
		}
		return
	case Withdrawn:
		g.end(e)
	}
	g.call(id, true, ran)
}

// wait delivers a call and waits for its turn. It returns nil if the shard has left.
func (g *rig) wait(id string) *Entity {
	granted := make(chan *Entity, 1)
	c := &Call{Entity: id, Sender: transport.Peer{Address: node("a")}, Local: true, Driver: granted}
	g.mu.Lock()
	e, v := g.s.Deliver(c, 1, time.Unix(0, 0))
	g.mu.Unlock()
	switch v {
	case Run:
		return e
	case Queued:
		return <-granted
	}
	return nil
}

func (g *rig) turn(e *Entity) {
	if e.Value == nil {
		n, _ := strconv.Atoi(string(e.State()))
		e.Value = &body{n: n}
		e.SetState(nil, codegen.Fresh)
	}
	b := e.Value.(*body)
	if b.inside {
		g.t.Errorf("two turns of %s at a time", e.ID)
	}
	b.inside = true
	b.n++
	b.inside = false
	g.ran.Add(1)
}

// end ends a turn under the lock.
func (g *rig) end(e *Entity) {
	g.mu.Lock()
	g.endLocked(e)
}

// endLocked does what end does, and releases the lock. The caller holds the lock.
func (g *rig) endLocked(e *Entity) {
	next, drained := g.s.End(e, 2)
	g.mu.Unlock()
	if next != nil {
		next.Driver.(chan *Entity) <- e
	}
	if drained {
		g.ended.Go(g.handOff)
	}
}

// do calls f under the lock and carries out its effects.
func (g *rig) do(f func() Effects) {
	g.mu.Lock()
	fx := f()
	g.mu.Unlock()
	for _, st := range fx.Start {
		st.Call.Driver.(chan *Entity) <- st.Entity
	}
	for _, calls := range [][]*Call{fx.Forward, fx.Refuse, fx.Drop} {
		for _, c := range calls {
			c.Driver.(chan *Entity) <- nil // look again
		}
	}
	if fx.Drained {
		g.ended.Go(g.handOff)
	}
}

func passivate(e *Entity) {
	e.SetState([]byte(strconv.Itoa(e.Value.(*body).n)), codegen.Reactivated)
	e.Value = nil
}

// handOff encodes everything, and then the move is called off.
func (g *rig) handOff() {
	g.mu.Lock()
	entities, ok := g.s.Stop()
	epoch := g.s.MoveEpoch()
	g.mu.Unlock()
	if !ok {
		return
	}
	for _, e := range entities {
		g.mu.Lock()
		may := g.s.MayPassivate(e)
		g.mu.Unlock()
		if !may {
			break
		}
		passivate(e)
	}
	g.do(func() Effects {
		fx, _ := g.s.Stopped(epoch, 2)
		return fx
	})
	g.place("a")
}

// place names a home under the next epoch.
func (g *rig) place(home string) {
	g.do(func() Effects {
		g.epoch = max(g.epoch, g.s.MoveEpoch(), g.s.Epoch()) + 1
		return g.s.Place(node(home), g.epoch, false, 2, time.Unix(0, 0))
	})
}

// disturb does one of the things that callers must not notice.
func (g *rig) disturb(r *rand.Rand, lose bool) {
	switch r.IntN(7) {
	case 0, 1:
		g.mu.Lock()
		idle := g.s.Idle(^uint32(0), 3)
		g.mu.Unlock()
		for _, e := range idle {
			passivate(e)
			g.end(e)
		}
	case 2:
		g.do(func() Effects {
			g.epoch = max(g.epoch, g.s.MoveEpoch(), g.s.Epoch()) + 1
			return g.s.BeginMove(node("b"), g.epoch)
		})
	case 3:
		f := Flush{Sender: transport.Peer{Address: node("a")}, Via: transport.Peer{Address: node("b")}}
		g.do(func() Effects {
			f.Epoch, f.Hop = g.epoch, g.epoch
			return g.s.CloseBarrier(f.Sender.Address, f.Via.Address, f.Epoch, false, 0, time.Unix(0, 0))
		})
		runtime.Gosched()
		g.do(func() Effects { return g.s.Flushed(f, 2, time.Unix(0, 0)) })
	case 4:
		if lose {
			g.place("b")
			g.place("a")
		}
	case 5:
		for _, on := range []bool{false, true} {
			g.mu.Lock()
			g.s.Direct(on)
			g.mu.Unlock()
			runtime.Gosched()
		}
	case 6:
		g.mu.Lock()
		err := g.s.Check()
		running := g.s.WatchRunning()
		g.mu.Unlock()
		if err != nil || running < 0 {
			g.t.Errorf("%d run: %v", running, err)
		}
	}
}

// TestOutsideTheLock calls a few entities from many goroutines while the shard
// passivates, moves, closes barriers and is lost: there is one turn at a time, every call runs
// once, and no state is lost except with its shard.
func TestOutsideTheLock(t *testing.T) {
	const callers, calls, entities = 8, 20_000, 3
	const tellers = 2 // of the callers
	for _, lose := range []bool{false, true} {
		t.Run(fmt.Sprintf("lose=%v", lose), func(t *testing.T) {
			g := &rig{
				t: t, s: New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{Mailbox: 2 * callers, Waiting: callers}),
				tells: make(chan func(), 4),
			}
			var runs sync.WaitGroup
			runs.Go(func() {
				for run := range g.tells {
					run()
				}
			})
			var order [callers][entities]int // the number of the last one that ran; written in turns
			g.s.Direct(true)
			g.place("a")
			var wg sync.WaitGroup
			for w := range callers {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(w), 3))
					for n := range calls {
						to := r.IntN(entities)
						ran := func() {
							if lose {
								return // two homes of an entity may run at a time
							}
							if order[w][to] > n {
								t.Errorf("%d ran behind %d", n, order[w][to])
							}
							order[w][to] = n
						}
						if w < tellers && r.IntN(8) > 0 {
							g.tell(strconv.Itoa(to), ran)
							continue
						}
						g.call(strconv.Itoa(to), r.IntN(8) > 0, ran)
						if r.IntN(16) == 0 {
							runtime.Gosched() // let others find the entity idle, or not
						}
					}
				})
			}
			done := make(chan struct{})
			go func() {
				wg.Wait()
				close(g.tells)
				runs.Wait()
				close(done)
			}()
			r := rand.New(rand.NewPCG(9, 9))
			for more := true; more; {
				select {
				case <-done:
					more = false
				default:
					g.disturb(r, lose)
					runtime.Gosched()
				}
			}
			g.ended.Wait()
			t.Logf("%d of %d turns began outside the lock", g.fast.Load(), callers*calls)
			if ran := g.ran.Load(); ran != callers*calls {
				t.Errorf("%d turns for %d calls", ran, callers*calls)
			}
			if g.joins.Load() < tellers*calls/10 {
				t.Errorf("only %d of %d tells joined a turn", g.joins.Load(), tellers*calls)
			}
			if g.fast.Load() < callers*calls/10 {
				t.Errorf("only %d of %d turns began outside the lock", g.fast.Load(), callers*calls)
			}
			if err := g.s.Check(); err != nil {
				t.Error(err)
			}
			sum := 0
			for e := range g.s.entities.all() {
				if e.Value == nil {
					n, _ := strconv.Atoi(string(e.State()))
					sum += n
				} else {
					sum += e.Value.(*body).n
				}
			}
			if !lose && sum != callers*calls {
				t.Errorf("the entities counted %d of %d calls", sum, callers*calls)
			}
		})
	}
}

// TestNoTurnBeginsBehindABarrier: once Direct has returned that calls are not direct any
// more, and the turn that had begun before is over, none begins outside the lock.
func TestNoTurnBeginsBehindABarrier(t *testing.T) {
	s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{Mailbox: 1, Waiting: 1})
	s.Place(node("a"), placement.MakeEpoch(1, 1), false, 0, time.Unix(0, 0))
	e := s.Take("x", 0)
	e.Value = "value"
	s.End(e, 0)

	var turns atomic.Int64
	var over atomic.Bool
	var caller sync.WaitGroup
	caller.Go(func() {
		for !over.Load() {
			if e.Enter(1, 0) != Entered {
				runtime.Gosched()
				continue
			}
			turns.Add(1)
			if left, _ := e.Leave(0); !left {
				t.Error("nobody waits, and the turn did not end")
			}
		}
	})
	const rounds = 5_000
	late := 0
	for range rounds {
		s.Direct(true)
		for before := turns.Load(); turns.Load() == before; {
			runtime.Gosched()
		}
		s.Direct(false)
		for e.Busy() {
			runtime.Gosched()
		}
		before := turns.Load()
		for range 50 {
			if turns.Load() > before {
				late++
				break
			}
		}
	}
	over.Store(true)
	caller.Wait()
	if late > 0 {
		t.Errorf("in %d of %d rounds a turn began behind the barrier, want none", late, rounds)
	}
}

package durablehost

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store/memory"
)

// TestCommandsAreAppliedOnce: every command that a caller repeats until it is answered is applied
// once, while homes change and die, over a store that is slow, busy, unavailable or stale, and that
// loses and delays requests and answers.
func TestCommandsAreAppliedOnce(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { applyOnce(t, seed) })
		})
	}
}

// homes are the successive homes of one shard; the last is the current one.
type homes struct {
	t       *testing.T
	server  *memory.Server
	trouble func() func(memory.Op) memory.Fault

	mu    sync.Mutex
	epoch uint64
	shard *Shard
	p     *process
}

// next gives the shard to another home.
func (h *homes) next(kill bool) {
	if h.p != nil && kill {
		h.p.end()
	} else if old := h.now(); old != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = old.Leave(ctx, anEpoch+h.epoch) // in order or not
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.epoch++
	client := h.server.Client()
	client.Fault(h.trouble())
	h.shard, h.p = newShard(h.t, client.Shards(), int(h.epoch), durable.Limits{AppendBytes: 600, TailCommits: 20, TailBytes: 4000})
	h.shard.Open(anEpoch + h.epoch)
}

func (h *homes) now() *Shard {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shard
}

// add sends a command to the current home. It reports whether the command was answered.
func (h *homes) add(c durable.Command, entity string) (balance string, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	tenure, err := h.now().Tenure(ctx)
	if err != nil {
		return "", false
	}
	a := tenure.Admit(&c)
	switch a.Verdict {
	case durable.Replay:
		return string(a.Answer), tenure.Wait(ctx, a.Ticket) == nil
	case durable.Run:
	case durable.Mismatch, durable.BelowFloor:
		h.t.Errorf("%+v: verdict %d", c, a.Verdict)
		return "", false
	default:
		return "", false
	}
	l, err := tenure.Load(ctx, entity)
	if err != nil {
		tenure.Discard(&c)
		return "", false
	}
	n, _ := strconv.Atoi(string(l.State))
	state := strconv.Itoa(n + 1)
	ticket, err := tenure.Commit(&durable.Turn{Entity: entity, State: []byte(state), Command: &c, Answer: []byte(state)})
	tenure.Passivated(entity)
	if err != nil {
		return "", false
	}
	return state, tenure.Wait(ctx, ticket) == nil
}

func applyOnce(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	trouble := memory.Trouble{
		Cut: 0.02, RequestLost: 0.02, AnswerLost: 0.03, ArrivesLate: 0.02, HalfDone: 0.02, Busy: 0.02, Stale: 0.3,
		LongestDelay: 5 * time.Millisecond, LongestAnswer: 5 * time.Millisecond, Latest: 3 * time.Second,
	}
	var mu sync.Mutex // of random
	h := &homes{t: t, server: memory.New()}
	h.trouble = func() func(memory.Op) memory.Fault {
		faults := trouble.Faults(random)
		return func(op memory.Op) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			return faults(op)
		}
	}
	h.next(false)

	const callers, calls = 4, 60
	var source Source
	var wg sync.WaitGroup
	for i := range callers {
		entity := fmt.Sprintf("e%d", i%3) // two callers share one entity, but not at a time
		wg.Go(func() {
			for range calls {
				id := begun(&source)
				for done := false; !done; {
					c := commandOf(id, 99, entity, "Add", nil)
					_, done = h.add(c, entity)
					if !done {
						time.Sleep(20 * time.Millisecond)
					}
				}
				source.End(id.Number)
			}
		})
		if i == 2 {
			wg.Wait() // the fourth caller uses the first one's entity
		}
	}
	over := make(chan struct{})
	faults := sync.WaitGroup{}
	faults.Go(func() {
		for {
			mu.Lock()
			pause, kill := time.Duration(random.IntN(400))*time.Millisecond, random.IntN(2) == 0
			mu.Unlock()
			select {
			case <-over:
				return
			case <-time.After(pause):
				h.next(kill)
			}
		}
	})
	wg.Wait()
	close(over)
	faults.Wait()
	h.trouble = func() func(memory.Op) memory.Fault { return nil }
	h.next(true)
	tenure := tenureOf(t, h.now())
	for entity, want := range map[string]int{"e0": 2 * calls, "e1": calls, "e2": calls} {
		if got := get(t, tenure, entity); got != strconv.Itoa(want) {
			t.Errorf("%s was added to %s times, want %d", entity, got, want)
		}
	}
}

package durablehost

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// newShards returns n shards of one process, which share Claims.
func newShards(t *testing.T, s store.Shards, n int) []*Shard {
	p := newProcess(t)
	claims, all := &Claims{}, make([]*Shard, n)
	for i := range all {
		all[i] = New(Config{
			Shard: store.Shard{Type: "Account", Number: i}, Store: s, Node: "n", Incarnation: 1,
			Patience: time.Hour, Host: p, Claims: claims,
		})
		t.Cleanup(all[i].Close)
	}
	return all
}

// oneAtATime makes the store answer one request after another, each after d.
func oneAtATime(d time.Duration) func(memory.Op) memory.Fault {
	var mu sync.Mutex
	var free time.Time // when the store has answered all earlier requests
	return func(memory.Op) memory.Fault {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(d)
		return memory.Fault{Delay: time.Until(free)}
	}
}

// TestAwaitedClaimsComeFirst: a process claims many shards from a store that answers one request at
// a time. The first call is answered when a few shards are claimed, whether calls wait for one
// shard or for all of them.
func TestAwaitedClaimsComeFirst(t *testing.T) {
	const shards, requests, each = 64, 5, 10 * time.Millisecond // requests of a claim
	for name, first := range map[string]int{"one": shards - 1, "all": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := memory.New().Client()
				client.Fault(oneAtATime(each))
				all := newShards(t, client.Shards(), shards)
				begin := time.Now()
				opened := make(chan time.Duration, shards)
				for _, s := range all {
					s.Open(anEpoch + 1)
				}
				for _, s := range all[first:] {
					go func() {
						_, err := s.Tenure(within(t, time.Minute))
						if err != nil {
							t.Error(err)
						}
						opened <- time.Since(begin)
					}()
				}
				if got, want := <-opened, (2*maxIdleClaims+1)*requests*each; got > want { // with one claim that was under way
					t.Errorf("the first of them opened after %v, want %v at most", got, want)
				}
				for _, s := range all {
					tenureOf(t, s)
				}
				for range len(all) - first - 1 { // before the cleanup closes the shards
					<-opened
				}
				if got, want := time.Since(begin), shards*requests*each; got > want {
					t.Errorf("all of them opened after %v, want %v at most", got, want)
				}
			})
		})
	}
}

// TestClaimsComeWithoutCalls: all shards are claimed even if no calls wait for them, but not all at
// once.
func TestClaimsComeWithoutCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 20
		client := memory.New().Client()
		client.Fault(func(memory.Op) memory.Fault { return memory.Fault{Delay: 10 * time.Millisecond} })
		all := newShards(t, client.Shards(), shards)
		for _, s := range all {
			s.Open(anEpoch + 1)
		}
		open := func() (n int) {
			for _, s := range all {
				if s.Current() != nil {
					n++
				}
			}
			return n
		}
		time.Sleep(60 * time.Millisecond)
		if n := open(); n != maxIdleClaims {
			t.Errorf("%d shards are open after the time of one claim, want %d", n, maxIdleClaims)
		}
		time.Sleep(time.Second)
		if n := open(); n != shards {
			t.Errorf("%d shards are open, want %d", n, shards)
		}
	})
}

// TestStuckClaimsDoNotDelayOthers: claims that the store does not answer do not delay claims of
// other shards. Nor does a shard that was given up before its claim began.
func TestStuckClaimsDoNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stuck = 2 * maxClaims
		client := memory.New().Client()
		answers := map[string]bool{}
		for number := stuck; number < stuck+2; number++ {
			answers[store.Shard{Type: "Account", Number: number}.String()] = true
		}
		client.Fault(func(op memory.Op) memory.Fault {
			if !answers[op.Key] {
				return memory.Fault{Delay: time.Hour}
			}
			return memory.Fault{}
		})
		all := newShards(t, client.Shards(), stuck+2)
		for _, s := range all {
			s.Open(anEpoch + 1)
		}
		all[stuck].Close()
		ctx := within(t, time.Minute)
		for _, s := range all[:stuck] {
			go func() { _, _ = s.Tenure(ctx) }() // calls wait for them too; ctx ends them
		}
		synctest.Wait()
		begin := time.Now()
		tenureOf(t, all[stuck+1])
		if got, want := time.Since(begin), 2*slowClaim; got > want {
			t.Errorf("a shard whose part of the store answers opened after %v, want %v at most", got, want)
		}
	})
}

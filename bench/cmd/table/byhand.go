package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/bench/limit"
	"github.com/shardgen/shardgen/bench/load"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

func byHand(l *limit.Hand, n int, payload []byte) []contestant {
	return []contestant{
		{"nats.Request", func(d time.Duration) (measure, error) {
			return load.Run(n, d, func(int, int) error { return l.Request(payload) })
		}},
		{"batched", func(d time.Duration) (measure, error) {
			return load.Run(n, d, func(int, int) error {
				_, err := l.Requester.Ask(payload)
				return err
			})
		}},
	}
}

func tellsByHand(l *limit.Hand) func(time.Duration) (measure, error) {
	payload := make([]byte, 64)
	return func(d time.Duration) (measure, error) {
		m, err := load.Bulk(runtime.GOMAXPROCS(0), d, func(int, int) error { return l.Teller.Tell(payload) })
		if err != nil {
			return m, err
		}
		return m, l.Teller.Flush()
	}
}

func lonePublishes(p *limit.Publishes) contestant {
	return contestant{"publish", func(d time.Duration) (measure, error) {
		return load.Run(1, d, func(w, i int) error { return p.Publish(load.Pick(w, i, entities)) })
	}}
}

// manyPublishes makes acknowledged JetStream publishes. Callers have their own entities, so that
// none waits for another.
func manyPublishes(p *limit.Publishes, n int) contestant {
	return contestant{"publishes", func(d time.Duration) (measure, error) {
		m, err := load.Load{Warm: warmCalls}.Run(n, d, func(w, i int) error { return p.Publish(w + n*load.Pick(w, i, entities/n)) })
		m.PerAppend = 1
		return m, err
	}}
}

const bareShards = 64

// bareLogs are a type's logs without entities. Each has one append under way, and the next carries
// all commits that arrived meanwhile. Durable calls cannot be faster.
type bareLogs struct {
	backend *natsstore.Store
	appends atomic.Int64
	logs    [bareShards]bareLog
}

type bareLog struct {
	shard store.Shard
	begin appendBeginner
	sends *atomic.Int64 // counts the appends of all logs

	mu      sync.Mutex
	waiting []chan error
	under   []chan error // callers whose commits are in the append under way
	busy    bool
	last    store.Position
}

type appendBeginner interface {
	BeginAppend(s store.Shard, expect store.Position, data []byte, done func(store.Position, func(context.Context) (store.Position, error))) bool
}

func newBareLogs(ctx context.Context, url string, replicas int) (*bareLogs, error) {
	backend, err := natsstore.Open(ctx, url, natsstore.Config{Name: "bare", Replicas: replicas})
	if err != nil {
		return nil, err
	}
	b := &bareLogs{backend: backend}
	for i := range b.logs {
		l := &b.logs[i]
		l.shard = store.Shard{Type: "Bare", Number: i}
		l.begin, l.sends = backend.Shards().(appendBeginner), &b.appends
		if l.last, err = backend.Shards().Append(ctx, l.shard, store.Any, make([]byte, limit.CommitBytes)); err != nil {
			backend.Close()
			return nil, err
		}
	}
	return b, nil
}

func (l *bareLog) commit(done chan error) error {
	l.mu.Lock()
	l.waiting = append(l.waiting, done)
	if !l.busy {
		l.busy = true
		l.send()
	}
	l.mu.Unlock()
	return <-done
}

// send begins an append of all waiting commits. l.mu must be held.
func (l *bareLog) send() {
	l.under, l.waiting = l.waiting, l.under[:0]
	l.sends.Add(1)
	sent := l.begin.BeginAppend(l.shard, l.last, make([]byte, limit.CommitBytes*len(l.under)), func(p store.Position, rest func(context.Context) (store.Position, error)) {
		if rest != nil {
			go func() { l.sent(rest(context.Background())) }() // ends with the append
			return
		}
		l.sent(p, nil)
	})
	if !sent {
		l.fail(fmt.Errorf("append to log %v: the store did not send it", l.shard))
	}
}

func (l *bareLog) sent(p store.Position, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.fail(err)
		return
	}
	l.last = p
	for _, done := range l.under {
		done <- nil
	}
	if l.busy = len(l.waiting) > 0; l.busy {
		l.send()
	}
}

// fail returns err to the callers of the present and next appends. l.mu must be held.
func (l *bareLog) fail(err error) {
	l.busy = false
	for _, done := range append(l.under, l.waiting...) {
		done <- err
	}
	l.waiting = nil
}

func (b *bareLogs) appenders(n int) contestant {
	done := make([]chan error, n)
	for i := range done {
		done[i] = make(chan error, 1)
	}
	return contestant{"bare appends", func(d time.Duration) (measure, error) {
		before := b.appends.Load()
		m, err := load.Load{Warm: warmCalls}.Run(n, d, func(w, i int) error {
			return b.logs[load.Pick(w, i, entities)*bareShards/entities].commit(done[w])
		})
		m.PerAppend = float64(m.Calls+m.Warm) / float64(max(b.appends.Load()-before, 1))
		return m, err
	}}
}

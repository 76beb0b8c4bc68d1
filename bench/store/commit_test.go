package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/natsproc"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

const (
	entities    = 10_000
	shards      = 64
	commitBytes = 128
)

// BenchmarkCommit has callers wait for their commits on entities at random; by entity, on
// those that are no other caller's.
func BenchmarkCommit(b *testing.B) {
	for _, callers := range []int{256, 4096} {
		b.Run(fmt.Sprintf("entity/%d", callers), func(b *testing.B) { benchmarkEntities(b, callers) })
		b.Run(fmt.Sprintf("log/%d", callers), func(b *testing.B) { benchmarkLogs(b, callers) })
	}
}

// many calls f from so many goroutines until b is done.
func many(b *testing.B, callers int, f func(caller int, random *rand.Rand) error) {
	b.Helper()
	var callersSoFar atomic.Int64
	b.SetParallelism((callers + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		caller := int(callersSoFar.Add(1)) - 1
		random := rand.New(rand.NewPCG(1, uint64(caller)))
		for pb.Next() {
			if err := f(caller, random); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// benchmarkEntities publishes each commit by itself, at the sequence of the one
// before.
func benchmarkEntities(b *testing.B, callers int) {
	server := natsproc.Start(b, "-js", "-sd", b.TempDir())
	nc, err := nats.Connect(server.URL())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	_, err = js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "E", Subjects: []string{"e.>"}, MaxMsgsPerSubject: 1, Storage: jetstream.FileStorage})
	if err != nil {
		b.Fatal(err)
	}
	last := make([]uint64, entities)
	data := make([]byte, commitBytes)
	many(b, callers, func(caller int, random *rand.Rand) error {
		i := caller + callers*random.IntN(entities/callers) // nobody else's, so that nobody waits for another
		ack, err := js.PublishMsg(context.Background(), &nats.Msg{Subject: fmt.Sprint("e.", i), Data: data}, jetstream.WithExpectLastSequencePerSubject(last[i]))
		if err == nil {
			last[i] = ack.Sequence
		}
		return err
	})
}

// A log has one append under way and collects what comes meanwhile.
type log struct {
	shard   store.Shard
	logs    store.Logs
	mu      sync.Mutex
	waiting []chan error
	busy    bool
	last    store.Position
}

// commit waits until an append carries it.
func (l *log) commit(done chan error) error {
	l.mu.Lock()
	l.waiting = append(l.waiting, done)
	first := !l.busy
	l.busy = true
	l.mu.Unlock()
	if first {
		go l.flush() // ends with the last commit that waits
	}
	return <-done
}

func (l *log) flush() {
	for {
		l.mu.Lock()
		group := l.waiting
		l.waiting = nil
		l.busy = len(group) > 0
		l.mu.Unlock()
		if len(group) == 0 {
			return
		}
		data := make([]byte, commitBytes*len(group))
		p, err := l.logs.Append(context.Background(), l.shard, l.last, data)
		for errors.Is(err, store.ErrBusy) {
			p, err = l.logs.Append(context.Background(), l.shard, l.last, data)
		}
		l.last = p
		for _, done := range group {
			done <- err
		}
	}
}

// benchmarkLogs appends to the logs of shards.
func benchmarkLogs(b *testing.B, callers int) {
	server := natsproc.Start(b, "-js", "-sd", b.TempDir())
	backend, err := natsstore.Open(b.Context(), server.URL(), natsstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer backend.Close()
	all := make([]log, shards)
	for i := range all {
		all[i].shard, all[i].logs = store.Shard{Type: "Account", Number: i}, backend.Shards()
	}
	for i := range all { // the first ones have the streams created
		if err := all[i].commit(make(chan error, 1)); err != nil {
			b.Fatal(err)
		}
	}
	var ready sync.Pool
	ready.New = func() any { return make(chan error, 1) }
	many(b, callers, func(_ int, random *rand.Rand) error {
		done := ready.Get().(chan error)
		defer ready.Put(done)
		return all[random.IntN(entities)%shards].commit(done)
	})
}

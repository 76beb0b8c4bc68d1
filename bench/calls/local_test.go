package calls

import (
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// An entity answers a call with its argument and counts it.
type entity struct {
	mu    sync.Mutex
	calls int64
}

func (e *entity) echo(payload []byte) []byte {
	e.calls++
	return payload
}

// BenchmarkAsk/local has what a call in one process costs by hand, on one of
// 1,000 entities.
func BenchmarkAsk(b *testing.B) {
	b.Run("local/mutex", func(b *testing.B) { eachPayload(b, benchmarkMutex) })
	b.Run("local/channel", func(b *testing.B) { eachPayload(b, benchmarkChannel) })
	b.Run("local/shardgen", benchmarkShardgenLocal)
	b.Run("local/intercepted", benchmarkIntercepted)
	b.Run("remote", benchmarkRemoteAsk)
	b.Run("remote/shardgen", benchmarkShardgenRemote)
}

const localEntities = 1000

func ids() []string {
	ids := make([]string, localEntities)
	for i := range ids {
		ids[i] = "entity-" + strconv.Itoa(i)
	}
	return ids
}

// benchmarkMutex finds the entity in a map under a read lock and calls it under
// its own lock.
func benchmarkMutex(b *testing.B, payload []byte) {
	var mu sync.RWMutex
	entities, ids := make(map[string]*entity), ids()
	for _, id := range ids {
		entities[id] = new(entity)
	}
	i := 0
	for b.Loop() {
		mu.RLock()
		e := entities[ids[i%localEntities]]
		mu.RUnlock()
		e.mu.Lock()
		payload = e.echo(payload)
		e.mu.Unlock()
		i++
	}
}

// A turn is what a goroutine that owns an entity receives.
type turn struct {
	payload []byte
	reply   chan []byte
}

// benchmarkChannel gives each entity a goroutine that takes turns from a
// channel; the caller keeps its reply channel.
func benchmarkChannel(b *testing.B, payload []byte) {
	var mu sync.RWMutex
	var owners sync.WaitGroup
	mailboxes, ids := make(map[string]chan turn), ids()
	for _, id := range ids {
		mailbox := make(chan turn)
		mailboxes[id] = mailbox
		owners.Go(func() {
			var e entity
			for t := range mailbox {
				t.reply <- e.echo(t.payload)
			}
		})
	}
	defer owners.Wait()
	defer func() {
		for _, mailbox := range mailboxes {
			close(mailbox)
		}
	}()
	reply := make(chan []byte, 1)
	i := 0
	for b.Loop() {
		mu.RLock()
		mailbox := mailboxes[ids[i%localEntities]]
		mu.RUnlock()
		mailbox <- turn{payload, reply}
		payload = <-reply
		i++
	}
}

// BenchmarkIdle tells the bytes that an idle entity costs by hand, id and map
// entry included; ns/op is the time to make one.
func BenchmarkIdle(b *testing.B) {
	b.Run("mapEntry", func(b *testing.B) {
		entities := make(map[string]*entity)
		idleBytes(b, func(id string) { entities[id] = new(entity) })
		runtime.KeepAlive(entities)
	})
	b.Run("goroutine", func(b *testing.B) {
		mailboxes := make(map[string]chan turn)
		var owners sync.WaitGroup
		idleBytes(b, func(id string) {
			mailbox := make(chan turn)
			mailboxes[id] = mailbox
			owners.Go(func() { <-mailbox })
		})
		for _, mailbox := range mailboxes {
			close(mailbox)
		}
		owners.Wait()
	})
}

// idleBytes calls add for entity after entity and reports the memory that each
// keeps, stacks included.
func idleBytes(b *testing.B, add func(id string)) {
	before := memoryInUse()
	n := 0
	for b.Loop() {
		add("entity-" + strconv.Itoa(n))
		n++
	}
	b.ReportMetric(float64(memoryInUse()-before)/float64(n), "B/entity")
}

func memoryInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

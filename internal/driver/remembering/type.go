package remembering

import (
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/store"
)

// maxActivating bounds how many remembered entities of a type a node activates at the same time.
const maxActivating = 64

// A Type is one type whose entities are remembered, in a process that hosts the type. It activates
// remembered entities, all at once or at a constant rate. It is safe for concurrent use, except for
// the method Shard, which must be called before Memory.Run.
type Type struct {
	memory   *Memory
	kind     string
	settings Settings
	shards   map[uint32]*Shard
	slots    chan struct{}

	mu      sync.Mutex
	queue   []activating // guarded by mu
	running bool         // guarded by mu

	// Only run uses the fields until and left. Before the time in until, run may activate as many
	// more entities as left says. Both fields keep their values while the queue is empty.
	until time.Time
	left  int
}

// Settings say how the entities of a type are remembered: see shard.Remember.
type Settings struct {
	Store        store.Store // nil: other members keep the ids
	Shards       uint32
	HashName     string                                    // name of the shard function
	Locate       func(id string) (shard uint32, err error) // returns the shard of the entity with that id
	Replicas     int
	MaxPerShard  int
	ConstantRate bool
	Entities     int
	Every        time.Duration
	Backoff      time.Duration
}

type activating struct {
	shard *Shard
	ids   []string
}

func newType(m *Memory, kind string, s Settings) *Type {
	return &Type{memory: m, kind: kind, settings: s, shards: map[uint32]*Shard{}, slots: make(chan struct{}, maxActivating)}
}

// Shard adds a shard to the type.
func (t *Type) Shard(core *shardhost.Shard, home Home) *Shard {
	s := &Shard{kind: t, shard: core, home: home}
	t.shards[core.ID.Shard] = s
	return s
}

// activate queues entities to be activated. It does not block.
func (t *Type) activate(s *Shard, ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(t.queue, activating{s, ids})
	if !t.running && t.memory.process.Context().Err() == nil {
		t.running = true
		t.memory.process.Go(t.run)
	}
}

func (t *Type) next() (s *Shard, id string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) > 0 && len(t.queue[0].ids) == 0 {
		t.queue = t.queue[1:]
	}
	if len(t.queue) == 0 {
		t.queue, t.running = nil, false
		return nil, "", false
	}
	first := &t.queue[0]
	id, first.ids = first.ids[0], first.ids[1:]
	return first.shard, id, true
}

func (t *Type) run() {
	p := t.memory.process
	for {
		s, id, ok := t.next()
		if !ok {
			return
		}
		if !s.mayActivate(id) {
			continue
		}
		if !t.wait() {
			return
		}
		select {
		case t.slots <- struct{}{}:
		case <-p.Context().Done():
			return
		}
		p.Go(func() {
			defer func() { <-t.slots }()
			s.activateUncalled(id)
		})
	}
}

func (t *Type) wait() bool {
	o := &t.settings
	if !o.ConstantRate {
		return true
	}
	if now := time.Now(); !now.Before(t.until) {
		t.until, t.left = now.Add(o.Every), o.Entities
	}
	if t.left == 0 {
		select {
		case <-time.After(time.Until(t.until)):
		case <-t.memory.process.Context().Done():
			return false
		}
		t.until, t.left = time.Now().Add(o.Every), o.Entities
	}
	t.left--
	return true
}

package node

import (
	"container/heap"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/reminders"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
)

// maxDelay is the longest time until due times are compared with the clock again. The bound is
// needed because the store's clock may have been set.
const maxDelay = 10 * time.Second

// volatileReminders has the reminders of the entities of a shard whose type is not durable. They are in
// memory, move with the shard, and are lost with the states of their entities. It is safe for concurrent
// use; the shard's lock may be held.
type volatileReminders struct {
	shard *HostedShard
	tries retries

	mu      sync.Mutex
	lists   map[string]reminders.List // of entities with reminders
	epoch   placement.Epoch           // the epoch of the move that brought the lists in coming
	coming  map[string][]byte         // encoded lists that come with the shard, until it opens
	last    uint64                    // the version of the latest change
	wakes   wakes
	at      map[string]int64   // when each entity's reminders must be run next; wakes has outdated times too
	under   map[string]bool    // entities whose due reminders are being run; true if their reminders have changed meanwhile
	running map[string]*Firing // the reminders that the present turns of entities run
	timer   *time.Timer
}

// now returns the store's time or, without a store, the time of the process.
func (v *volatileReminders) now() int64 {
	if d := v.shard.driver().Durable; d != nil {
		now, _ := d.Clock.Now()
		return now.UnixMilli()
	}
	return time.Now().UnixMilli()
}

// changedLocked records the new reminders of an entity. The caller holds mu.
func (v *volatileReminders) changedLocked(entity string, all reminders.List) {
	if v.lists == nil {
		v.lists, v.at, v.under, v.running = map[string]reminders.List{}, map[string]int64{}, map[string]bool{}, map[string]*Firing{}
	}
	if v.lists[entity] = all; len(all) == 0 {
		delete(v.lists, entity)
	}
	if _, under := v.under[entity]; under {
		v.under[entity] = true
		return
	}
	v.wakeLocked(entity, all.Due())
}

// wakeLocked sets when an entity's due reminders must be run next.
func (v *volatileReminders) wakeLocked(entity string, at int64) {
	if old, there := v.at[entity]; there && old == at {
		return
	}
	delete(v.at, entity)
	if at != reminders.Never {
		v.at[entity] = at
		heap.Push(&v.wakes, wake{at, entity})
	}
	if len(v.wakes) > 2*len(v.at)+fewWakes {
		v.wakes = slices.DeleteFunc(v.wakes, func(w wake) bool { return v.at[w.entity] != w.at })
		heap.Init(&v.wakes)
	}
	v.armLocked()
}

// lookPause is the pause after an attempt to run an entity's due reminders that changed none of
// them, for example because the entity's shard has just moved.
const lookPause = 10 * time.Millisecond

// fewWakes is how many outdated wakes are kept before they are removed.
const fewWakes = 64

func (v *volatileReminders) armLocked() {
	if len(v.wakes) == 0 || len(v.under) > durable.MaxLooks-durable.LooksTogether {
		return
	}
	delay := time.Duration(min(max(v.wakes[0].at-v.now(), 0), maxDelay.Milliseconds())) * time.Millisecond
	if v.timer == nil {
		v.timer = time.AfterFunc(delay, v.look)
		return
	}
	v.timer.Reset(delay)
}

// look starts to run the due reminders of entities, in the order of their due times.
func (v *volatileReminders) look() {
	drv := v.shard.driver()
	if drv.Closed() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	var due []string
	for now := v.now(); len(v.wakes) > 0 && v.wakes[0].at <= now && len(v.under) < durable.MaxLooks; {
		w := heap.Pop(&v.wakes).(wake)
		if v.at[w.entity] != w.at {
			continue
		}
		delete(v.at, w.entity)
		v.under[w.entity] = false
		due = append(due, w.entity)
	}
	drv.lookAll(drv.Context, v.shard.Host.Kind, due, v.now, v.looked)
	v.armLocked()
}

// looked ends an attempt to run an entity's due reminders. The next attempt is not made before the
// time in again, unless the entity's reminders have changed.
func (v *volatileReminders) looked(entity string, again int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.lists[entity].Due()
	if !v.under[entity] && at != reminders.Never {
		at = max(at, again, v.now()+lookPause.Milliseconds())
	}
	delete(v.under, entity)
	v.wakeLocked(entity, at)
	v.armLocked()
}

// drop drops the reminders of an entity whose state is dropped.
func (v *volatileReminders) drop(entity string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.lists[entity]) > 0 {
		v.changedLocked(entity, nil)
	}
}

// clear drops all reminders, because the shard is not here any more.
func (v *volatileReminders) clear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clearLocked()
}

func (v *volatileReminders) clearLocked() {
	clear(v.lists)
	clear(v.at)
	v.wakes, v.coming = nil, nil
}

// dues yields the [wire.DueKey] of each entity with reminders. A nil v has none.
func (v *volatileReminders) dues() iter.Seq[string] {
	return func(yield func(string) bool) {
		if v == nil {
			return
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		for id, l := range v.lists {
			if at := l.Due(); at != reminders.Never && !yield(wire.DueKey(at, id)) {
				return
			}
		}
	}
}

// leaving returns the reminders that move with the shard.
func (v *volatileReminders) leaving() map[string][]byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make(map[string][]byte, len(v.lists))
	for id, l := range v.lists {
		all[id] = reminders.Encode(l.Message())
	}
	return all
}

// arrived keeps the reminders that came with a part of the shard, until the shard opens.
func (v *volatileReminders) arrived(with shardhost.Carried) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.epoch != with.Epoch || v.coming == nil {
		v.clearLocked()
		v.epoch, v.coming = with.Epoch, map[string][]byte{}
	}
	for id, piece := range with.Reminders {
		v.coming[id] = append(v.coming[id], piece...)
	}
}

// opened is called when the shard has opened, and takes over the reminders that came with it.
func (v *volatileReminders) opened() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, encoded := range v.coming {
		l, err := reminders.DecodeList(encoded)
		if err != nil {
			v.shard.driver().Logger.Error("reminders lost: those that came with a shard cannot be read", "shard", v.shard.ID.String(), "entity", clip(id), "err", err)
			continue
		}
		v.changedLocked(id, l)
	}
	v.coming = nil
}

type wake struct {
	at     int64
	entity string
}

type wakes []wake

func (w wakes) Len() int           { return len(w) }
func (w wakes) Less(i, j int) bool { return w[i].at < w[j].at }
func (w wakes) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *wakes) Push(x any)        { *w = append(*w, x.(wake)) }

func (w *wakes) Pop() any {
	old := *w
	last := old[len(old)-1]
	*w = old[:len(old)-1]
	return last
}

// volatileTurn is a turn of an entity whose type is not durable.
type volatileTurn struct {
	turn *turn
	*volatileReminders
}

func (v volatileTurn) whose() *turn    { return v.turn }
func (v volatileTurn) tries() *retries { return &v.volatileReminders.tries }

func (v volatileTurn) version() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last++
	return v.last
}

func (v volatileTurn) list() reminders.List {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lists[v.turn.entity.ID]
}

func (v volatileTurn) change(_ string, f func(reminders.List) (reminders.List, error)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	id := v.turn.entity.ID
	all, err := f(v.lists[id])
	if err == nil && !slices.Equal(all, v.lists[id]) {
		v.changedLocked(id, all)
	}
	return err
}

func (v volatileTurn) replace(due, next *wire.DurableReminder) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changedLocked(v.turn.entity.ID, v.lists[v.turn.entity.ID].Replaced(due, next))
}

func (v volatileTurn) fires(f *Firing, _ *wire.DurableReminder) (ended func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running[v.turn.entity.ID] = f
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.running, v.turn.entity.ID)
	}
}

func (v volatileTurn) fired(m, next *wire.DurableReminder) {
	v.replace(m, next)
	v.volatileReminders.tries.succeeded(v.turn.entity.ID, m)
}

func (volatileTurn) failed() {}

func (v volatileTurn) firing() *Firing {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.running[v.turn.entity.ID]
}

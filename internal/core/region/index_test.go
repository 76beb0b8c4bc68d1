package region

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// TestIndex does the same random things to an index and to a map.
func TestIndex(t *testing.T) {
	tests := []struct {
		name string
		is   func(hash uint64) bool // of the ids
		ids  int
	}{
		{"spread", func(uint64) bool { return true }, 3000},
		{"one place and one tag for all", func(h uint64) bool { return h%64 == 7 && uint8(h>>tagAt) <= 1 }, 40},
		{"all at the table's end", func(h uint64) bool { return h%128 >= 125 }, 60},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var ids []string
			for i := 0; len(ids) < tt.ids; i++ {
				if id := strconv.Itoa(i); tt.is(Hash(id)) {
					ids = append(ids, id)
				}
			}
			r := rand.New(rand.NewPCG(1, 2))
			model := map[string]*Entity{}
			var x index
			most := 0
			for step := range 40_000 {
				id := ids[r.IntN(tt.ids)]
				grows := step/10_000%2 == 0 // then shrinks, then again
				e := model[id]
				switch {
				case e == nil && (grows || r.IntN(4) == 0):
					e = newEntity(nil, id)
					model[id] = e
					x.put(e)
				case e != nil && (!grows || r.IntN(4) == 0):
					delete(model, id)
					x.remove(e)
				}
				x.remove(newEntity(nil, id)) // a stranger: changes nothing
				if got := x.get(id); got != model[id] {
					t.Fatalf("step %d: found %v for %s, want %v", step, got, id, model[id])
				}
				most = max(most, len(x.slots()))
			}
			if x.n != len(model) {
				t.Errorf("%d entities, want %d", x.n, len(model))
			}
			for id, e := range model {
				if got := x.get(id); got != e {
					t.Errorf("found %v for %s, want %v", got, id, e)
				}
			}
			var got []string
			for _, e := range x.sorted() {
				got = append(got, e.ID)
			}
			if want := slices.Sorted(maps.Keys(model)); !slices.Equal(got, want) {
				t.Errorf("holds %v\nwant %v", got, want)
			}
			if n := len(x.slots()); n < minSlots || n == most && len(model)*sparse < n {
				t.Errorf("%d slots for %d entities, and %d before: it never shrank", n, len(model), most)
			}
			x.clear()
			if e := x.get(ids[0]); e != nil || x.n != 0 {
				t.Errorf("after clear: %v, %d", e, x.n)
			}
		})
	}
}

// TestIndexReaders lets readers look for entities while a writer grows and shrinks the table. They
// must find an entity that stays most of the time, and always once the writer rests. They never
// find an entity with another id.
func TestIndexReaders(t *testing.T) {
	var x index
	stays := newEntity(nil, "stays")
	x.put(stays)
	var stop atomic.Bool
	var readers sync.WaitGroup
	var looks, found atomic.Int64
	for range 2 {
		readers.Go(func() {
			for i := 0; !stop.Load(); i++ {
				id := strconv.Itoa(i % 500)
				if e := x.look(Hash(id), id); e != nil && e.ID != id {
					t.Errorf("found %s for %s", e.ID, id)
					return
				}
				looks.Add(1)
				if x.get(stays.ID) == stays {
					found.Add(1)
				}
			}
		})
	}
	for range 40 {
		for i := range 500 {
			x.put(newEntity(nil, strconv.Itoa(i)))
		}
		for i := range 500 {
			x.remove(x.get(strconv.Itoa(i)))
		}
	}
	if x.get("stays") != stays {
		t.Error("lost who stayed")
	}
	stop.Store(true)
	readers.Wait()
	if found.Load()*2 < looks.Load() {
		t.Errorf("found who stayed in %d of %d looks", found.Load(), looks.Load())
	}
}

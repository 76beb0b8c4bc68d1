package codegen

import (
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A keeper is an invoker with a cache of references and its own hash function.
type keeper struct {
	Invoker
	refs *RefCache
	hash func(id string) uint64
}

func (k *keeper) Hash(id string) (uint64, error) { return k.hash(id), CheckID(id) }

func (k *keeper) Refs() *RefCache { return k.refs }

// TestReferencesAreKept: repeated references to an id are the same pointer, until an id with the
// same place in the cache replaces it.
func TestReferencesAreKept(t *testing.T) {
	hashes := map[string]uint64{"bob": 7, "other place": 8, "same place": 7 + cachedRefs, "same hash": 7}
	by := &keeper{refs: new(RefCache), hash: func(id string) uint64 { return hashes[id] }}
	bob := NewRef(by, "bob", nil)
	for range 3 {
		require.Same(t, bob, NewRef(by, "bob", nil))
		require.Equal(t, "other place", NewRef(by, "other place", nil).ID)
	}
	for _, other := range []string{"same place", "same hash"} {
		bob = NewRef(by, "bob", nil)
		require.Same(t, bob, NewRef(by, "bob", nil))
		got := NewRef(by, other, nil)
		require.Equal(t, other, got.ID)
		require.Equal(t, hashes[other], got.Hash)
		require.NotSame(t, bob, NewRef(by, "bob", nil))
		require.Equal(t, "bob", NewRef(by, "bob", nil).ID)
	}
}

// TestReferencesThatAreNotKept: references with options, of another invoker of the kind, or to bad
// ids are not taken from the cache.
func TestReferencesThatAreNotKept(t *testing.T) {
	by := &keeper{refs: new(RefCache), hash: func(string) uint64 { return 7 }}
	within := &keeper{refs: by.refs, hash: by.hash} // the invoker of a process with interceptors
	for range 3 {
		bob := NewRef(by, "bob", nil)
		patient := NewRef(by, "bob", nil, func(o *CallOptions) { o.Timeout = time.Minute })
		require.Equal(t, time.Minute, patient.Timeout())
		require.Zero(t, bob.Timeout())
		require.Same(t, within, NewRef(within, "bob", nil).Invoker)
		require.Same(t, by, NewRef(by, "bob", nil).Invoker)
		require.Error(t, NewRef(by, "", nil).Err())
		require.NoError(t, NewRef(by, "bob", nil).Err())
	}
}

// TestKeptReferencesKeepNothingElse: a cached reference does not retain the longer string that its
// id is part of.
func TestKeptReferencesKeepNothingElse(t *testing.T) {
	by := &keeper{refs: new(RefCache), hash: func(string) uint64 { return 7 }}
	message := "from bob with very much more beside the id"
	for _, id := range []string{message[5:8], message[5:25]} {
		NewRef(by, id, nil)
		kept := NewRef(by, id, nil)
		require.Same(t, kept, NewRef(by, id, nil))
		require.Equal(t, id, kept.ID)
		require.NotSame(t, unsafe.StringData(id), unsafe.StringData(kept.ID))
	}
}

// TestReferencesOfManyGoroutines: several goroutines make references to ids with the same place in
// the cache. Each gets a reference to its own id.
func TestReferencesOfManyGoroutines(t *testing.T) {
	by := &keeper{refs: new(RefCache), hash: func(id string) uint64 { return uint64(len(id)) * cachedRefs }}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 20_000 {
				id := fmt.Sprint("id-", (i/3+w)%12)
				if got := NewRef(by, id, nil); got.ID != id || got.Hash != by.hash(id) {
					t.Errorf("a reference to %s with the hash %d, want %s", got.ID, got.Hash, id)
					return
				}
			}
		})
	}
	all.Wait()
}

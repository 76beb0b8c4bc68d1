package durable

import (
	"testing"
	"time"
	"unsafe"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// TestEntitySize: an entity takes few cache lines, because cache misses dominate the time of
// commits.
func TestEntitySize(t *testing.T) {
	if got := unsafe.Sizeof(entity{}); got > 280 {
		t.Errorf("an entity has %d bytes, want at most 280", got)
	}
}

// TestSumOfEvents: if the log has only a commit's events, the commit's sum is loaded with them,
// from the log and from a record. A commit with a state has no sum.
func TestSumOfEvents(t *testing.T) {
	e := &entity{id: "e"}
	for i, tt := range []struct {
		commit *wire.DurableCommit
		want   uint32
	}{
		{&wire.DurableCommit{Version: 1, State: []byte("a")}, 0},
		{&wire.DurableCommit{Version: 2, Folded: true, Events: [][]byte{{1}}, Sum: maxSum}, maxSum},
		{&wire.DurableCommit{Version: 3, Folded: true, Events: [][]byte{{2}}, Sum: 0x0a0b0c}, 0x0a0b0c},
		{&wire.DurableCommit{Version: 4, State: []byte("b"), Events: [][]byte{{3}}}, 0},
	} {
		e.recover(tt.commit)
		if got := e.loadedNow().Sum; got != tt.want {
			t.Errorf("commit %d: got %x from the log, want %x", i+1, got, tt.want)
		}
		now := time.UnixMilli(1)
		record := store.Record{Key: e.recordKey(), Value: e.change(now, 1<<20, "").Value, Revision: 1}
		v, err := readRecord(e.id, record, "")
		if err != nil || v.sum.uint32() != tt.want {
			t.Errorf("commit %d: got %x and %v from the record, want %x", i+1, v.sum.uint32(), err, tt.want)
		}
	}
}

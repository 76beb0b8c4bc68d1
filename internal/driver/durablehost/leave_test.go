package durablehost

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store/memory"
)

// TestLeaveWritesAll: when Leave returns, the shard has written its log to records, even if other
// work of the tenure ends at that moment.
func TestLeaveWritesAll(t *testing.T) {
	s := memory.New().Client().Shards()
	for i := range uint64(300) {
		sh, _ := newShard(t, s, 1, durable.Limits{})
		sh.Open(anEpoch + i)
		tenure := tenureOf(t, sh)
		id := fmt.Sprint("e", i)
		if _, err := tenure.Load(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		ticket, err := tenure.Commit(&durable.Turn{Entity: id, State: []byte("1")})
		if err == nil {
			err = tenure.Wait(t.Context(), ticket)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		for range 2 {
			others.Go(func() {
				for ctx.Err() == nil {
					tenure.do(func(time.Time) {})
				}
			})
		}
		err = sh.Leave(within(t, time.Minute), anEpoch+i)
		stop()
		others.Wait()
		if err != nil {
			t.Fatal(err)
		}
		_, records, err := s.Get(t.Context(), account, []string{durable.EntityKey(id)}, 0)
		if err != nil || len(records[0].Value) == 0 || !tenure.Rested() {
			t.Fatalf("leave %d: the record is %v, %v", i, records, err)
		}
	}
}

// TestRested: Rested is false for a tenure that ended before its log was in records, although Leave
// succeeded.
func TestRested(t *testing.T) {
	sh, _ := newShard(t, memory.New().Client().Shards(), 1, durable.Limits{})
	sh.Open(anEpoch)
	tenure := tenureOf(t, sh)
	tenure.Drop()
	if err := sh.Leave(within(t, time.Minute), anEpoch); err != nil || tenure.Rested() {
		t.Errorf("%v, rested %v: want that it has not", err, tenure.Rested())
	}
}

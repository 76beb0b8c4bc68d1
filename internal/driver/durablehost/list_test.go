package durablehost

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// listed returns all ids with a prefix, read in pages of limit.
func listed(t *testing.T, tenure *Tenure, prefix string, limit int) (all []string) {
	t.Helper()
	after := ""
	for {
		type page struct {
			ids  []string
			more bool
			err  error
		}
		got := make(chan page, 1)
		tenure.List(durable.Query{Of: durable.IDs, Prefix: prefix, After: after, Limit: limit}, func(ids []string, more bool, err error) { got <- page{ids, more, err} })
		p := <-got
		if p.err != nil {
			t.Fatal(p.err)
		}
		if all = append(all, p.ids...); !p.more {
			return all
		}
		after = p.ids[len(p.ids)-1]
	}
}

func numbered(from, n int) (ids []string) {
	for i := range n {
		if i >= from {
			ids = append(ids, fmt.Sprint("a", i))
		}
	}
	slices.Sort(ids)
	return ids
}

func checkListed(t *testing.T, when string, tenure *Tenure, want []string) {
	t.Helper()
	for _, limit := range []int{7, 900} {
		if got := listed(t, tenure, "a", limit); !slices.Equal(got, want) {
			t.Errorf("%s: %d ids in pages of %d, want %d: %q", when, len(got), limit, len(want), got)
		}
	}
}

// TestList: a home lists the entities that it or an earlier home has committed, even after a leaf
// of the catalog was lost. It does not list expired entities that a sweep has deleted.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New().Client().Shards()
		first, _ := newShard(t, s, 1, durable.Limits{LeafBytes: 400})
		first.Open(anEpoch + 1)
		if got := listed(t, tenureOf(t, first), "", 10); len(got) != 0 {
			t.Errorf("an empty shard lists %q", got)
		}
		const n = 500
		fill(t, first, n, 10*time.Minute)

		second := newSweeping(t, s, 2, Sweep{})
		second.Open(anEpoch + 2)
		tenure := tenureOf(t, second)
		checkListed(t, "the next home", tenure, numbered(0, n))
		set(t, tenure, "b", "1")
		set(t, tenure, "a500", "1")
		checkListed(t, "after two commits", tenure, numbered(0, n+1))
		if got := listed(t, tenure, "b", 3); !slices.Equal(got, []string{"b"}) {
			t.Errorf("with prefix b: %q", got)
		}
		time.Sleep(3 * time.Hour) // two sweeps
		var want []string
		for _, id := range numbered(0, n+1) {
			if get(t, tenure, id) != "" {
				want = append(want, id)
			}
		}
		checkListed(t, "after the sweep", tenure, want)
		if len(want) != n/3+2 {
			t.Errorf("%d entities are left, want %d", len(want), n/3+2)
		}
		loseLeaf(t, s)
		checkListed(t, "after a leaf was lost", tenure, want)
		if err := second.Leave(within(t, time.Minute), anEpoch+2); err != nil {
			t.Fatal(err)
		}
		third, _ := newShard(t, s, 3, durable.Limits{})
		third.Open(anEpoch + 3)
		checkListed(t, "the third home", tenureOf(t, third), want)
	})
}

// loseLeaf deletes all leaves of the catalog.
func loseLeaf(t *testing.T, s store.Shards) {
	t.Helper()
	ctx := within(t, time.Minute)
	head, err := s.Head(ctx, account)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for after := store.None; ; {
		page, err := s.List(ctx, account, after)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			if after = r.Revision; r.Key[0] != 'x' {
				continue
			}
			lost++
			if _, err := s.Put(ctx, account, head.Revision, []store.Change{{ID: r.Key}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if lost == 0 {
		t.Fatal("the shard has no leaves")
	}
}

// TestListEnds: a list fails when its tenure ends, even while the list waits for the store.
func TestListEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		s := server.Client().Shards()
		sh, _ := newShard(t, s, 1, durable.Limits{})
		sh.Open(anEpoch + 1)
		fill(t, sh, 10, time.Hour)
		sh.Open(anEpoch + 2)
		tenure := tenureOf(t, sh)
		server.Stop()
		got := make(chan error, 2)
		tenure.List(durable.Query{Of: durable.IDs, Limit: 10}, func(_ []string, _ bool, err error) { got <- err })
		synctest.Wait()
		tenure.Drop()
		tenure.List(durable.Query{Of: durable.IDs, Limit: 10}, func(_ []string, _ bool, err error) { got <- err })
		for range 2 {
			if err := <-got; err == nil {
				t.Error("a list of a tenure that has ended has no error")
			}
		}
	})
}

// TestListStopped: a tenure whose catalog is not complete drops lists after their callers have
// called stop.
func TestListStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New().Client()
		s := client.Shards()
		first, _ := newShard(t, s, 1, durable.Limits{})
		first.Open(anEpoch + 1)
		fill(t, first, 10, time.Hour)
		loseLeaf(t, s)
		client.Fault(func(op memory.Op) memory.Fault {
			if op.Name == "list records" {
				return memory.Fault{Loss: memory.LoseRequest}
			}
			return memory.Fault{}
		})
		first.Open(anEpoch + 2)
		tenure := tenureOf(t, first)
		got := 0
		for range 100 {
			stop := tenure.List(durable.Query{Of: durable.IDs, Limit: 10}, func([]string, bool, error) { got++ })
			time.Sleep(time.Second)
			stop()
		}
		time.Sleep(2 * time.Second)
		tenure.mu.Lock()
		kept := len(tenure.unlisted) + len(tenure.lists)
		tenure.mu.Unlock()
		if kept > 0 || got > 0 {
			t.Errorf("%d lists are kept, and done was called for %d: want 0 and 0", kept, got)
		}
	})
}

func TestListJetStream(t *testing.T) {
	s := jetStream(t)
	sh, _ := newShard(t, s, 1, durable.Limits{})
	sh.Open(anEpoch + 1)
	fill(t, sh, 3000, time.Hour)
	sh.Open(anEpoch + 2)
	checkListed(t, "after a checkpoint", tenureOf(t, sh), numbered(0, 3000))
	loseLeaf(t, s)
	checkListed(t, "after a leaf was lost", tenureOf(t, sh), numbered(0, 3000))
}

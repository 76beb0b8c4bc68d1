package album

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// TestResize tests the pool's method without a cluster.
func TestResize(t *testing.T) {
	small, err := (&Resizer{}).Resize(t.Context(), []byte{0, 4, 8, 8, 4, 8, 8, 8}, 4)
	if err != nil || fmt.Sprint(small) != "[4 8]" {
		t.Errorf("got %v and %v, want [4 8]", small, err)
	}
	if _, err := (&Resizer{}).Resize(t.Context(), []byte{1, 2, 3}, 2); err != ErrFormat {
		t.Errorf("a picture without its last point: got %v, want %v", err, ErrFormat)
	}
}

// TestBurst: a burst of pictures gets more resizers within a minute. They end when it is over. Meanwhile
// a node is killed, and no picture fails.
func TestBurst(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		pool, albums := NewResizerClient(c.Client()), NewAlbumClient(c.Client())
		count := func() (n int) {
			for range pool.Each() {
				n++
			}
			return n
		}
		c.Until("the pool has its minimum", func() bool { return count() == 2 })
		ctx, stop := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					if _, err := albums.Ref(fmt.Sprint(i)).Add(t.Context(), fmt.Sprint(n%100), []byte("abcd"), 2); err != nil {
						t.Error(err)
					}
					time.Sleep(200 * time.Millisecond)
				}
			})
		}
		began := time.Now()
		c.Until("the pool has grown", func() bool { return count() > 2 })
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it grew after %v, want at most a minute", took)
		}
		c.Restart("n2")
		c.Until("it has grown again", func() bool { return count() >= 4 })
		stop()
		callers.Wait()
		most := count()
		c.Until("the pool has shrunk", func() bool { return count() < most })
	}, shardtest.Host(func(n *shard.Node) error { Host(n, 100*time.Millisecond); return nil }), shardtest.Nodes(3))
}

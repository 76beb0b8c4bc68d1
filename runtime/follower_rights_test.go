package shard_test

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/savings"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
	"github.com/shardgen/shardgen/store"
)

// A refusing store refuses requests for followers' records, and followers' reads of journals.
type refusing struct {
	store.Backend
	put, get, read atomic.Bool
}

func (r *refusing) refuse(on *atomic.Bool, op, key string) error {
	if !on.Load() {
		return nil
	}
	return &store.Error{Op: op, Key: key, Err: fmt.Errorf("%w: %w: no right to %s this", store.ErrUnavailable, fs.ErrPermission, op)}
}

func (r *refusing) Put(ctx context.Context, key string, value []byte, expect store.Revision) (store.Revision, error) {
	if err := r.refuse(&r.put, "put", key); err != nil && strings.HasPrefix(key, "followers/") {
		return store.None, err
	}
	return r.Backend.Put(ctx, key, value, expect)
}

func (r *refusing) Get(ctx context.Context, key string) (store.Record, error) {
	if err := r.refuse(&r.get, "get", key); err != nil && strings.HasPrefix(key, "followers/") {
		return store.Record{}, err
	}
	return r.Backend.Get(ctx, key)
}

func (r *refusing) Shards() store.Shards { return refusingShards{r.Backend.Shards(), r} }

type refusingShards struct {
	store.Shards
	by *refusing
}

func (s refusingShards) Get(ctx context.Context, sh store.Shard, ids []string, atLeast store.Revision) (store.Head, []store.Record, error) {
	if err := s.by.refuse(&s.by.read, "get records", sh.String()); err != nil && slices.Equal(ids, []string{"j"}) {
		return store.Head{}, nil, err
	}
	return s.Shards.Get(ctx, sh, ids, atLeast)
}

// TestFollowerWithoutRights: a follower that may not write or read its record, or may not read the journals,
// ends with an error that says so. It does not read the same events for ever.
func TestFollowerWithoutRights(t *testing.T) {
	for name, of := range map[string]func(*refusing) *atomic.Bool{
		"put":         func(r *refusing) *atomic.Bool { return &r.put },
		"get":         func(r *refusing) *atomic.Bool { return &r.get },
		"get records": func(r *refusing) *atomic.Bool { return &r.read },
	} {
		t.Run(name, func(t *testing.T) {
			var own *refusing // the store of the followers' process
			shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				accounts := savings.NewAccountClient(c.Node("n1"))
				enter := func() {
					for range 5 {
						_, err := accounts.Ref("a").Enter(t.Context(), 1, "")
						require.NoError(t, err)
					}
				}
				enter() // homes are not refused
				f := followNamed(ctx, c.Node("n2"))
				c.Advance(5 * time.Second)
				of(own).Store(true)
				enter()
				c.Advance(5 * time.Second)
				require.True(t, f.ended.Load())
				require.ErrorIs(t, f.err, fs.ErrPermission)
				require.ErrorContains(t, f.err, "no right to "+name)
				again := followNamed(ctx, c.Node("n2"))
				c.Advance(5 * time.Second)
				require.True(t, again.ended.Load())
				require.ErrorIs(t, again.err, fs.ErrPermission)
				require.Zero(t, again.read.Load())
				of(own).Store(false)
				enter()
				granted := followNamed(ctx, c.Node("n2"))
				c.Advance(5 * time.Second)
				require.False(t, granted.ended.Load(), "%v", granted.err)
				require.Positive(t, granted.read.Load())
				cancel()
				c.Until("it ends", granted.ended.Load)
			}, shardtest.Nodes(2), shardtest.Host(hostSavings), shardtest.Config(func(c *shard.Config) {
				if c.Name == "n2" {
					own = &refusing{Backend: c.Store}
					c.Store = own
				}
			}))
		})
	}
}

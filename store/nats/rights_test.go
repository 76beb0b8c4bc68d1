package natsstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// TestCheckRights: for a user with all rights, CheckRights succeeds at once, with one server and
// with three, before a type has its streams and later. It writes nothing. The e2e tests take rights
// away.
func TestCheckRights(t *testing.T) {
	for _, servers := range []int{1, 3} {
		var urls []string
		if servers == 1 {
			urls = []string{natsproc.Start(t, "-js", "-sd", t.TempDir()).URL()}
		} else if testing.Short() {
			continue
		} else {
			for _, s := range cluster(t) {
				urls = append(urls, s.URL())
			}
		}
		s := open(t, strings.Join(urls, ","), natsstore.Config{Replicas: servers, Partitions: 1})
		check := func() {
			began := time.Now()
			require.NoError(t, s.Shards().(interface {
				CheckRights(ctx context.Context, types ...string) error
			}).CheckRights(t.Context(), shard.Type, "Other"))
			require.Less(t, time.Since(began), time.Second, "somebody does not answer")
		}
		check()
		_, err := s.Shards().Head(t.Context(), shard)
		require.NoError(t, err)
		check()
		records, err := s.List(t.Context(), "")
		require.NoError(t, err)
		require.Empty(t, records)
		last, err := s.Last(t.Context(), shard)
		require.NoError(t, err)
		require.Zero(t, last)
	}
}

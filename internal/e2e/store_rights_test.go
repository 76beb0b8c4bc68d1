package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/rights"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// storeUses are the uses of a store, by role.
func storeUses(url func(user string) string) map[string]func(ctx context.Context, user string) error {
	shard := store.Shard{Type: "T", Number: 1}
	open := func(ctx context.Context, user string, noCreate bool) (*natsstore.Store, error) {
		return natsstore.Open(ctx, url(user), natsstore.Config{Name: "bank", Partitions: 1, NoCreate: noCreate, Timeout: 10 * time.Second})
	}
	return map[string]func(ctx context.Context, user string) error{
		"store": func(ctx context.Context, user string) error { // as shardctl store does
			s, err := open(ctx, user, false)
			if err != nil {
				return err
			}
			defer s.Close()
			kind := "D" + user
			if err := useStore(ctx, s.Shards(), kind); err != nil {
				return err
			}
			if _, err := s.Types(ctx); err != nil {
				return err
			}
			return s.DropType(ctx, kind)
		},
		"nocreate": func(ctx context.Context, user string) error {
			s, err := open(ctx, user, true)
			if err != nil {
				return err
			}
			defer s.Close()
			_, err = s.Shards().Head(ctx, shard)
			return err
		},
		"follower": func(ctx context.Context, user string) error { // as a loop over events with a name does
			s, err := open(ctx, user, true)
			if err != nil {
				return err
			}
			defer s.Close()
			if _, err := s.Shards().Head(ctx, shard); err != nil {
				return err
			}
			if _, _, err := s.Shards().Get(ctx, shard, []string{"alice"}, store.None); err != nil {
				return err
			}
			if _, err := s.Put(ctx, "follow/"+user, []byte("1"), store.None); err != nil {
				return err
			}
			_, err = s.Get(ctx, "follow/"+user)
			return err
		},
	}
}

// TestLeastPrivilegeOfStore: the rights that shardctl permissions prints are enough for each user of a
// store. Without one of them an error names it, and a follower can write no entity.
func TestLeastPrivilegeOfStore(t *testing.T) {
	roles := map[string]rights.Rights{
		"store": rights.Store("e2e", "shardctl", "bank"), "nocreate": rights.WorkerNoCreate("e2e", "bank"), "follower": rights.Follower("e2e", "mail", "bank"),
	}
	users, missing := map[string]rights.Rights{"worker": rights.Worker("e2e", "bank")}, map[string]string{}
	for role, r := range roles {
		users[role] = r
		for i := range len(r.Publish) + len(r.Subscribe) {
			left, right := without(r, i)
			if role == "store" && !ofOperator(right) || role == "follower" && (right == "bank.k.>" || right == "_INBOX.>") {
				user := fmt.Sprint(role, "-", i)
				users[user], missing[user] = left, right
			}
		}
	}
	url := leastPrivilege(t, users)
	uses := storeUses(url)
	backend, err := natsstore.Open(t.Context(), url("worker"), natsstore.Config{Name: "bank", Partitions: 1})
	require.NoError(t, err)
	t.Cleanup(backend.Close)
	require.NoError(t, useStore(t.Context(), backend.Shards(), "T"))
	for role, use := range uses {
		require.NoError(t, use(t.Context(), role), role)
	}
	for user, right := range missing {
		t.Run(user+" without "+right, func(t *testing.T) {
			role, _, _ := strings.Cut(user, "-")
			begin := time.Now()
			err := uses[role](t.Context(), user)
			require.ErrorContains(t, err, rightOf(right))
			require.Less(t, time.Since(begin), promptly)
			t.Logf("after %v: %v", time.Since(begin), err)
		})
	}
	follower, err := natsstore.Open(t.Context(), url("follower"), natsstore.Config{Name: "bank", Partitions: 1, NoCreate: true})
	require.NoError(t, err)
	t.Cleanup(follower.Close)
	if err := useStore(t.Context(), follower.Shards(), "T"); err == nil || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a follower writes entities: %v", err)
	}
}

// ofOperator reports whether shardctl store asks members by a right, which TestStoreWritesUnderPrintedRights
// of cmd/shardctl takes away.
func ofOperator(right string) bool { return strings.HasPrefix(right, "sh.") }

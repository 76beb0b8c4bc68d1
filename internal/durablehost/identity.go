package durablehost

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/store"
)

// IdentityKey is the key of the record that distinguishes a cluster's store from others.
func IdentityKey(cluster string) string { return "cluster/" + cluster }

// Identity returns what the store itself keeps to be known by: a random number and the node that
// began to use it for the cluster. The first node to ask writes it by compare-and-set, with its own
// name and number. Until then it tries again, until ctx ends.
func Identity(ctx context.Context, s store.Store, cluster, node string, number uint64) (string, error) {
	key, own := IdentityKey(cluster), strconv.FormatUint(number, 16)+" of "+node
	for {
		_, err := s.Put(ctx, key, []byte(own), store.None)
		if err == nil {
			return own, nil
		}
		if errors.Is(err, store.ErrConflict) {
			var found store.Record
			if found, err = s.Get(ctx, key); err == nil {
				return string(found.Value), nil
			}
		}
		retry := errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUncertain) || errors.Is(err, store.ErrBusy)
		if !retry || !rest(ctx, 50*time.Millisecond) { // a replica may lag behind the conflict
			return "", fmt.Errorf("identify the store by its record %q: %w", key, err)
		}
	}
}

// CheckIdentity compares the store behind the present connection with the one that had the
// identity. Its error wraps ErrOtherStore if that is another one, or has lost the record.
func CheckIdentity(ctx context.Context, s store.Store, cluster, identity string) error {
	found, err := s.Get(ctx, IdentityKey(cluster))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%w: it has no record %q, and this node began with the store %q", ErrOtherStore, IdentityKey(cluster), identity)
	case err != nil:
		return err
	case string(found.Value) != identity:
		return fmt.Errorf("%w: it is %q, and this node began with the store %q", ErrOtherStore, found.Value, identity)
	}
	return nil
}

// ErrOtherStore says that a connection leads to another store than before.
var ErrOtherStore = errors.New("another store answers")

// rest reports whether d has passed before ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

package durablehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/store"
)

// Followed is how far a named follower has read, as the store has it.
type Followed struct {
	Format int             `json:"format"`
	Places []durable.Place `json:"places"`
	// Owner is the loop that follows under the name, or was the last one. No two loops have the same.
	// Records of earlier programs have none.
	Owner string `json:"owner,omitempty"`
}

const followedFormat = 1

// followers is the prefix of the records of a type's named followers.
func followers(kind string) string { return "followers/" + kind + "/" }

// LoadFollowed returns a named follower's record, with no places if it is new, and its revision. They
// may be out of date.
func LoadFollowed(ctx context.Context, s store.Store, kind, name string) (Followed, store.Revision, error) {
	r, err := s.Get(ctx, followers(kind)+name)
	if errors.Is(err, store.ErrNotFound) {
		return Followed{}, store.None, nil
	} else if err != nil {
		return Followed{}, store.None, err
	}
	f, err := readFollowed(r)
	return f, r.Revision, err
}

func readFollowed(r store.Record) (f Followed, err error) {
	if err = json.Unmarshal(r.Value, &f); err != nil {
		return f, fmt.Errorf("record %q of the store is damaged: %w (restore it from a backup)", r.Key, err)
	}
	if f.Format > followedFormat {
		return f, fmt.Errorf("record %q of the store has format %d, this program reads %d (run the newer program here too)", r.Key, f.Format, followedFormat)
	}
	return f, nil
}

// SaveFollowed writes the record of a named follower.
func SaveFollowed(ctx context.Context, s store.Store, kind, name string, f Followed, expect store.Revision) (store.Revision, error) {
	f.Format = followedFormat
	value, err := json.Marshal(f)
	if err != nil {
		return store.None, err
	}
	return s.Put(ctx, followers(kind)+name, value, expect)
}

// FollowersOf returns the records of a type's named followers by their names.
func FollowersOf(ctx context.Context, s store.Store, kind string) (map[string][]byte, error) {
	all, err := s.List(ctx, followers(kind))
	if err != nil {
		return nil, err
	}
	by := make(map[string][]byte, len(all))
	for _, r := range all {
		by[strings.TrimPrefix(r.Key, followers(kind))] = r.Value
	}
	return by, nil
}

// DropFollowers deletes the records of a type's named followers.
func DropFollowers(ctx context.Context, s store.Store, kind string) error {
	all, err := s.List(ctx, followers(kind))
	for _, r := range all {
		if err == nil {
			err = s.Delete(ctx, r.Key, r.Revision)
		}
	}
	return err
}

// DropFollower deletes the record of a named follower. It fails with store.ErrNotFound.
func DropFollower(ctx context.Context, s store.Store, kind, name string) error {
	r, err := s.Get(ctx, followers(kind)+name)
	if err != nil {
		return err
	}
	return s.Delete(ctx, r.Key, r.Revision)
}

// RestoreFollowers writes records of named followers that are not there.
func RestoreFollowers(ctx context.Context, s store.Store, kind string, by map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if _, err := s.Put(ctx, followers(kind)+name, by[name], store.None); err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

// LostFollowers returns the errors of a type's named followers whose places in a shard do not fit its journal, by
// their names: the shard was put back to an older state.
func LostFollowers(ctx context.Context, s store.Backend, shard store.Shard) (map[string]error, error) {
	all, err := s.List(ctx, followers(shard.Type))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	head, err := s.Shards().Head(ctx, shard)
	if err != nil {
		return nil, err
	}
	lost := make(map[string]error)
	for _, r := range all {
		f, err := readFollowed(r)
		if err != nil {
			return nil, err
		}
		at := shard.Number - len(f.Places)
		if at < 0 || at >= len(f.Places) {
			continue
		}
		reader := Follower{Store: s.Shards(), Type: shard.Type, Places: f.Places}
		_, err = reader.read(ctx, shard, at, head.Revision)
		if misfit := (*durable.LostError)(nil); errors.As(err, &misfit) {
			lost[strings.TrimPrefix(r.Key, followers(shard.Type))] = err
		} else if gone := (*durable.GoneError)(nil); err != nil && !errors.As(err, &gone) {
			return nil, wrap(shard, err)
		}
	}
	return lost, nil
}

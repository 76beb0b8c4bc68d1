package durablehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// A Follower reads the journals of all shards of a type: see NewFollower. It is not safe for concurrent use.
type Follower struct {
	Store  store.Shards
	Type   string
	Places []durable.Place // by shard, as many as the type has

	lost []time.Time // since when a shard's journal does not go on behind its place; zero means it does
}

// NewFollower returns one that begins anew.
func NewFollower(s store.Shards, kind string, shards int) Follower {
	return Follower{Store: s, Type: kind, Places: make([]durable.Place, shards), lost: make([]time.Time, shards)}
}

// lostAfter is how long a journal must look as if it did not go on behind a follower's place until that is
// true. Replicas may lag behind, and a stale answer looks the same: it has fewer events than the
// follower has read, or lacks a chunk. So these reads must be as new as the leader's records: see latest. In the midst of a
// Put a journal may lack a chunk too. So each of the reads during this time, of which there are about 12, must say
// the same, and one without an answer begins it anew.
const lostAfter = 3 * time.Second

// Number is the number of the shard whose place is Places[i]. A type's shards are numbered
// from their count on: see package placement.
func (f *Follower) Number(i int) int { return len(f.Places) + i }

const (
	// readAtOnce is how many journals one follower reads at the same time.
	readAtOnce = 16
	// readWithin bounds one answer of the store. It is no bound of all answers together: shards that
	// are asked last would never be read if the others take so long.
	readWithin = 5 * time.Second
)

// Poll returns events of all shards that have any after the follower's places, by shard. A shard's
// events are in order. The places do not move over events: see Read. There are no events until all
// shards have answered once, so that the places have each shard's first event to follow.
func (f *Follower) Poll(ctx context.Context) ([][]durable.Recorded, error) {
	all := make([][]durable.Recorded, len(f.Places))
	errs := make([]error, len(f.Places))
	var wg sync.WaitGroup
	room := make(chan struct{}, readAtOnce)
	for i := range all {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			all[i], errs[i] = f.poll(ctx, i)
		})
	}
	wg.Wait()
	if !f.Begun() {
		clear(all)
	}
	return all, errors.Join(errs...)
}

// Begun reports whether it is known of each shard from which event on it is followed.
func (f *Follower) Begun() bool { return !slices.Contains(f.Places, durable.Place{}) }

// poll reads one shard.
func (f *Follower) poll(ctx context.Context, i int) ([]durable.Recorded, error) {
	shard, since := store.Shard{Type: f.Type, Number: f.Number(i)}, f.lost[i]
	f.lost[i] = time.Time{}
	lost := (*durable.LostError)(nil)
	anew := f.Places[i] == durable.Place{}
	events, err := []durable.Recorded(nil), error(nil)
	if !anew {
		events, err = f.read(ctx, shard, i, store.None)
	}
	if anew || errors.As(err, &lost) {
		newest, errNewest := f.latest(ctx, shard)
		if errNewest != nil {
			return nil, errNewest
		}
		events, err = f.read(ctx, shard, i, newest)
	}
	if !errors.As(err, &lost) {
		return events, wrap(shard, err)
	}
	if since.IsZero() {
		since = time.Now()
	}
	if f.lost[i] = since; time.Since(since) < lostAfter {
		return nil, nil
	}
	return nil, wrap(shard, err)
}

// A leading store knows the revision of a shard's record that was written last.
type leading interface {
	Latest(ctx context.Context, s store.Shard) (store.Revision, error)
}

// latest returns a revision; reads at least as new are not stale. If the store knows only the head, which may be
// older than the journal, these reads may be stale by as much.
func (f *Follower) latest(ctx context.Context, shard store.Shard) (store.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	if s, ok := f.Store.(leading); ok {
		return s.Latest(ctx, shard)
	}
	head, err := f.Store.Head(ctx, shard)
	return head.Revision, err
}

// read is poll with answers that are at least as new as a revision.
func (f *Follower) read(ctx context.Context, shard store.Shard, i int, atLeast store.Revision) ([]durable.Recorded, error) {
	events, after, err := f.Places[i].Look(func(keys ...string) ([]store.Record, error) {
		ctx, cancel := context.WithTimeout(ctx, readWithin)
		defer cancel()
		_, records, err := f.Store.Get(ctx, shard, keys, atLeast)
		return records, err
	})
	switch {
	case err != nil:
		return nil, err
	case len(events) == 0:
		f.Places[i] = after
	case f.Places[i] == durable.Place{}:
		f.Places[i] = durable.Place{Chunk: events[0].Place.Chunk, Number: events[0].Place.Number - 1}
	}
	return events, nil
}

func wrap(shard store.Shard, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("shard %v: %w", shard, err)
}

// Read notes that an event was read.
func (f *Follower) Read(i int, e durable.Recorded) { f.Places[i] = e.Place }

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

// followersPeriod is how often a home looks how far named followers have read.
const followersPeriod = 10 * time.Second

// A followerLook looks how far named followers have read the journal of a tenure's shard. Its asked is guarded by
// the tenure's lock, and one look at a time uses the rest.
type followerLook struct {
	asked time.Time                // when the last look began
	under bool                     // one is under way
	fits  map[string]durable.Place // the journal has their events, by the followers' keys
}

// next begins a look if one is due. The tenure's lock is held.
func (l *followerLook) next(t *Tenure, now time.Time) {
	c := &t.shard.cfg
	if !c.Journal.Followers || c.Records == nil || l.under || now.Sub(l.asked) < followersPeriod {
		return
	}
	l.asked, l.under = now, true
	c.Host.Go(func() {
		ctx, cancel := context.WithTimeout(t.ctx, c.Patience)
		defer cancel()
		number, err := l.slowest(ctx, c)
		t.do(func(time.Time) {
			l.under = false
			if err == nil { // else nothing is deleted until it is known
				t.core.Followed(number)
			}
		})
	})
}

// slowest returns the last event of the journal that all named followers have read. Without any, that is none.
func (l *followerLook) slowest(ctx context.Context, c *Config) (uint64, error) {
	all, err := c.Records.List(ctx, followers(c.Shard.Type))
	if err != nil {
		return 0, err
	}
	number, fits := uint64(0), make(map[string]durable.Place)
	for i, r := range all {
		f, err := readFollowed(r)
		if err != nil {
			return 0, err
		}
		place := durable.Place{}
		if at := c.Shard.Number - len(f.Places); at >= 0 && at < len(f.Places) {
			place = f.Places[at]
		}
		ok := l.fits[r.Key] == place
		if !ok {
			if ok, err = fit(ctx, c, place); err != nil {
				return 0, err
			}
		}
		if ok {
			fits[r.Key] = place
		} else {
			place.Number = 0
		}
		if i == 0 || place.Number < number {
			number = place.Number
		}
	}
	l.fits = fits
	return number, nil
}

// fit reports whether the journal has the event that a follower has read last. If it was put back to an older
// state, it may have another one of that number, and the follower has not read those before it either.
func fit(ctx context.Context, c *Config, place durable.Place) (bool, error) {
	ok, err := place.Fits(func(keys ...string) ([]store.Record, error) {
		_, records, err := c.Store.Get(ctx, c.Shard, keys, store.None)
		return records, err
	})
	if lost := (*durable.LostError)(nil); errors.As(err, &lost) {
		return false, nil
	}
	return ok, err
}

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

// A Follower reads the journals of all shards of a type. It is not safe for concurrent use.
type Follower struct {
	Store  store.Shards
	Type   string
	Places []durable.Place // place in each shard's journal
	AtEnd  bool            // a follower without a place in a journal begins at the journal's end, not at its beginning
	Part   Part            // the shards that are read

	lost []time.Time // since when a shard's journal has seemed not to continue at the follower's place; zero means that it continues
}

// A Part is a subset of a type's shards. The zero Part means all shards.
type Part struct {
	Number int `json:"part,omitempty"`
	Of     int `json:"of,omitempty"` // the number of parts
}

// Has reports whether the shard whose place is Places[i] belongs to the part.
func (p Part) Has(i int) bool { return p.Of == 0 || i%p.Of == p.Number }

// NewFollower returns a Follower with no places yet.
func NewFollower(s store.Shards, kind string, shards int) Follower {
	return Follower{Store: s, Type: kind, Places: make([]durable.Place, shards), lost: make([]time.Time, shards)}
}

// lostAfter is how long a journal must seem to lack the follower's place before the follower gets
// an error. A lagging replica looks the same, so each read must be as new as the leader's records
// (see latest). During a write a chunk may be missing, so all reads in this time must agree.
const lostAfter = 3 * time.Second

// Number returns the number of the shard whose place is Places[i]. The numbers of a type's shards
// begin with their count: see package placement.
func (f *Follower) Number(i int) int { return len(f.Places) + i }

const (
	readAtOnce = 16
	// readWithin bounds one answer of the store. The answers have no common bound, because slow
	// shards could then starve the last ones.
	readWithin = 5 * time.Second
)

// Poll returns, for each shard, the events after the follower's place in the shard's journal, in
// order. It does not move the places past these events: Read does. Until every shard has answered
// once, Poll returns no events, because not every place is known before.
func (f *Follower) Poll(ctx context.Context) ([][]durable.Recorded, error) {
	all := make([][]durable.Recorded, len(f.Places))
	errs := make([]error, len(f.Places))
	var wg sync.WaitGroup
	room := make(chan struct{}, readAtOnce)
	for i := range all {
		if !f.Part.Has(i) {
			continue
		}
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

// Begun reports whether the follower's place is known in all shards that it reads.
func (f *Follower) Begun() bool {
	for i, p := range f.Places {
		if f.Part.Has(i) && p == (durable.Place{}) {
			return false
		}
	}
	return true
}

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
		if anew && f.AtEnd {
			f.Places[i], err = durable.End(f.getter(ctx, shard, newest))
			return nil, wrap(shard, err)
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

type leading interface {
	Latest(ctx context.Context, s store.Shard) (store.Revision, error)
}

func (f *Follower) latest(ctx context.Context, shard store.Shard) (store.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	if s, ok := f.Store.(leading); ok {
		return s.Latest(ctx, shard)
	}
	head, err := f.Store.Head(ctx, shard)
	return head.Revision, err
}

func (f *Follower) read(ctx context.Context, shard store.Shard, i int, atLeast store.Revision) ([]durable.Recorded, error) {
	events, after, err := f.Places[i].Look(f.getter(ctx, shard, atLeast))
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

// getter reads records of a shard that are at least as new as revision atLeast.
func (f *Follower) getter(ctx context.Context, shard store.Shard, atLeast store.Revision) durable.Getter {
	return func(keys ...string) ([]store.Record, error) {
		ctx, cancel := context.WithTimeout(ctx, readWithin)
		defer cancel()
		_, records, err := f.Store.Get(ctx, shard, keys, atLeast)
		return records, err
	}
}

func wrap(shard store.Shard, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("shard %v: %w", shard, err)
}

// Read moves the place of shard i past event e.
func (f *Follower) Read(i int, e durable.Recorded) { f.Places[i] = e.Place }

// Followed is the stored record of how far a named follower has read.
type Followed struct {
	Format int             `json:"format"`
	Places []durable.Place `json:"places"`
	// Owner identifies the loop that follows under the name, or the last one that did. Each loop
	// has its own Owner. Records of earlier programs have no Owner.
	Owner string `json:"owner,omitempty"`
	Part         // Places covers only this part's shards
}

// placeOf returns a shard's index in f.Places and the place there. ok is false if the follower does
// not read the shard.
func (f *Followed) placeOf(shard store.Shard) (at int, place durable.Place, ok bool) {
	at = shard.Number - len(f.Places)
	if at < 0 || at >= len(f.Places) {
		return at, place, f.Part == Part{} // it has no places yet
	}
	return at, f.Places[at], f.Has(at)
}

const followedFormat = 1

func followers(kind string) string { return "followers/" + kind + "/" }

// LoadFollowed returns a named follower's record and its revision. A new follower has no places.
// Both results may be stale.
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
		return f, fmt.Errorf("record %q of the store has format %d, but this program reads format %d (run the newer program here too)", r.Key, f.Format, followedFormat)
	}
	return f, nil
}

// LatestPlaces returns how far the followers with a name have read each shard of a type. It
// considers the records of all parts, and takes for each shard the place that was written last. If
// there are no such followers, it returns nil. own and revision are the record of the given part,
// as returned by LoadFollowed.
func LatestPlaces(ctx context.Context, s store.Store, kind, name string, part Part, own Followed, revision store.Revision, shards int) ([]durable.Place, error) {
	all, err := s.List(ctx, followers(kind))
	if err != nil {
		return nil, err
	}
	var places []durable.Place
	at := make([]store.Revision, shards)
	take := func(f Followed, revision store.Revision) {
		if len(f.Places) != shards {
			return
		}
		if places == nil {
			places = make([]durable.Place, shards)
		}
		for i, p := range f.Places {
			if f.Has(i) && p != (durable.Place{}) && revision > at[i] {
				places[i], at[i] = p, revision
			}
		}
	}
	take(own, revision)
	for _, r := range all {
		record := strings.TrimPrefix(r.Key, followers(kind))
		if by, _, _ := strings.Cut(record, partMark); by != name || record == part.NameOf(name) {
			continue
		}
		f, err := readFollowed(r)
		if err != nil {
			return nil, err
		}
		take(f, r.Revision)
	}
	return places, nil
}

// partMark separates a follower's name from the part's number in the name of a part's record. No
// follower's name contains it.
const partMark = "="

// NameOf returns the name of the record that holds a follower's position in this part.
func (p Part) NameOf(follower string) string {
	if p.Of == 0 {
		return follower
	}
	return fmt.Sprintf("%s%s%d-of-%d", follower, partMark, p.Number, p.Of)
}

// SaveFollowed writes a named follower's record, if the record's revision in the store is expect.
func SaveFollowed(ctx context.Context, s store.Store, kind, name string, f Followed, expect store.Revision) (store.Revision, error) {
	f.Format = followedFormat
	value, err := json.Marshal(f)
	if err != nil {
		return store.None, err
	}
	return s.Put(ctx, followers(kind)+name, value, expect)
}

// FollowersOf returns the records of a type's named followers, by name.
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

// DropFollower deletes a named follower's records, or one part's record if name is a result of
// [Part.NameOf]. It fails with store.ErrNotFound if there is no such record.
func DropFollower(ctx context.Context, s store.Store, kind, name string) error {
	all, err := s.List(ctx, followers(kind))
	if err != nil {
		return err
	}
	err = store.ErrNotFound
	for _, r := range all {
		record := strings.TrimPrefix(r.Key, followers(kind))
		if of, _, _ := strings.Cut(record, partMark); record != name && of != name {
			continue
		}
		if err = s.Delete(ctx, r.Key, r.Revision); err != nil {
			return err
		}
	}
	return err
}

// RestoreFollowers writes the given records of named followers, by name, and skips those that the
// store already has.
func RestoreFollowers(ctx context.Context, s store.Store, kind string, by map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if _, err := s.Put(ctx, followers(kind)+name, by[name], store.None); err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

// LostFollowers returns an error for each named follower whose place is not in the shard's journal,
// because the shard was restored to an older state. The map's keys are the followers' names.
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
		at, _, ok := f.placeOf(shard)
		if !ok || at < 0 || at >= len(f.Places) {
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

const followersPeriod = 10 * time.Second

// A followerLook checks how far named followers have read the journal of a tenure's shard. The
// tenure's lock guards the fields asked and under. Only the running check uses fits.
type followerLook struct {
	asked time.Time                // when the last check began
	under bool                     // a check is running
	fits  map[string]durable.Place // by the followers' keys: places that fit has found in the journal
}

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
			if err == nil { // otherwise nothing is deleted until the answer is known
				t.core.Followed(number)
			}
		})
	})
}

// slowest returns the number of the last event that all named followers have read; 0 without
// followers.
func (l *followerLook) slowest(ctx context.Context, c *Config) (uint64, error) {
	all, err := c.Records.List(ctx, followers(c.Shard.Type))
	if err != nil {
		return 0, err
	}
	number, fits, any := uint64(0), make(map[string]durable.Place), false
	for _, r := range all {
		f, err := readFollowed(r)
		if err != nil {
			return 0, err
		}
		_, place, reads := f.placeOf(c.Shard)
		if !reads {
			continue
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
		if !any || place.Number < number {
			number, any = place.Number, true
		}
	}
	l.fits = fits
	return number, nil
}

// fit reports whether the journal still has the event that a follower read last. A journal restored
// from an older backup may have a different event with that number.
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

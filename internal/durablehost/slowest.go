package durablehost

import (
	"context"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/store"
)

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

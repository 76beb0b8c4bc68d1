package durable

import (
	"bytes"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// follower reads a shard's journal and compares each event with the log. It never crashes.
type follower struct {
	r     *run
	shard int
	place durable.Place
	begun bool   // the follower's position is known
	first uint64 // 1 if the first chunk was found deleted, otherwise 0
}

func newFollower(r *run, shard int) *follower {
	f := &follower{r: r, shard: shard}
	f.poll()
	return f
}

// reader is the process of the followers. It is none of the homes.
var reader = &home{name: "follower"}

func (f *follower) poll() {
	f.read()
	for _, h := range f.r.homes {
		if t := h.tenures[f.shard]; t != nil {
			t.core.Followed(f.place.Number)
		}
	}
	f.r.w.after(f.r.between(50*time.Millisecond, 400*time.Millisecond), f.poll)
}

func (f *follower) read() {
	w := f.r.w
	if f.r.judge.shards[f.shard].crashed { // the journal may begin again from an earlier event
		return
	}
	if f.begun && w.chance(0.1) { // an image of the shard has the events in other chunks
		f.place.Chunk = uint64(w.random.IntN(int(f.place.Chunk) + 4))
	}
	gets := 0
	events, after, err := f.place.Look(func(keys ...string) ([]store.Record, error) {
		gets++
		return f.get(keys...)
	})
	gone, lost := (*durable.GoneError)(nil), (*durable.LostError)(nil)
	switch {
	case errors.As(err, &gone):
		f.pass(gone.Next)
		return
	case errors.Is(err, errNoAnswer), errors.As(err, &lost) && lost.Cause != durable.ErrOther: // a stale answer looks like a loss
		return
	case err != nil:
		w.fail("follower: %v", err)
		return
	case gets > 2:
		f.r.counts.Sought++
	}
	all := f.r.judge.shards[f.shard].events
	for _, e := range events {
		if !f.begun && e.Place.Number > 1 {
			f.pass(e.Place.Number)
		}
		if e.Place.Number != f.place.Number+1 || e.Place.Number > uint64(len(all)) {
			w.fail("invariant 7: event %d is read after event %d; the log has %d events", e.Place.Number, f.place.Number, len(all))
			return
		}
		if want := all[e.Place.Number-1]; want.entity != e.Entity || want.version != e.Version || !bytes.Equal(want.event, e.Event) {
			w.fail("invariant 7: event %d was read as an event of %s v%d, but in the log it belongs to %s v%d", e.Place.Number, e.Entity, e.Version, want.entity, want.version)
			return
		}
		f.place, f.begun = e.Place, true
		f.r.counts.Followed++
	}
	f.place = after
	if f.place.Chunk > 2 && f.r.server.record(f.shard, "j1").Revision == 0 && f.first == 0 {
		f.first = 1
		f.r.counts.Deleted++
	}
}

func (f *follower) pass(next uint64) {
	if f.r.plan.journaling.Followers {
		f.r.w.fail("invariant 7: events %d to %d were deleted before they were read", f.place.Number+1, next-1)
	}
	f.r.counts.Gone += int(next - 1 - f.place.Number)
	f.place, f.begun = durable.Place{Chunk: 1, Number: next - 1}, true
}

// errNoAnswer means that the store has not answered.
var errNoAnswer = errors.New("the store has not answered")

func (f *follower) get(ids ...string) ([]store.Record, error) {
	a, err := f.r.server.serve(reader, f.shard, durable.Request{Op: durable.OpGet, IDs: ids})
	if err == nil && (a.Outcome != durable.OK || len(a.Records) != len(ids)) {
		err = errNoAnswer
	}
	return a.Records, err
}

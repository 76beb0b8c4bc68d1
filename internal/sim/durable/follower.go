package durable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/wire"
)

// A recorded is an event of a commit that counts.
type recorded struct {
	entity  string
	version uint64
	event   []byte
	at      int64 // by the clock of its home
}

// events are those of a turn: additions to the balance, one or two.
func (a *account) events(change int64, padding int) [][]byte {
	if !a.t.home.r.plan.journal {
		return nil
	}
	if change%2 != 0 {
		return [][]byte{added(change, padding)}
	}
	return [][]byte{added(change/2, padding), added(change/2, 0)}
}

func added(change int64, padding int) []byte {
	return append(binary.AppendVarint(nil, change), make([]byte, padding)...)
}

// fold is the balance of a state after events.
func fold(state []byte, events [][]byte) int64 {
	balance := balanceOf(state)
	for _, e := range events {
		balance += balanceOf(e)
	}
	return balance
}

// is reports whether a record has the state of the commit.
func (c commit) is(r *wire.DurableRecord) bool {
	if c.form != r.GetForm() {
		return false
	}
	if len(r.GetSince()) == 0 && bytes.Equal(c.state, r.GetState()) {
		return true
	}
	return balanceOf(c.state) == fold(r.GetState(), r.GetSince())
}

// A follower reads the journal of one shard, and has each event compared with the log. It
// outlives every home.
type follower struct {
	r     *run
	shard int
	place durable.Place
	first uint64 // the oldest chunk that was there last
}

func newFollower(r *run, shard int) *follower {
	f := &follower{r: r, shard: shard}
	f.poll()
	return f
}

// reader asks for followers; it is none of the homes.
var reader = &home{name: "follower"}

func (f *follower) poll() {
	f.read()
	for _, h := range f.r.homes {
		if t := h.tenures[f.shard]; t != nil {
			t.core.Followed(f.place.Chunk)
		}
	}
	f.r.w.after(f.r.between(50*time.Millisecond, 400*time.Millisecond), f.poll)
}

func (f *follower) read() {
	w := f.r.w
	a, ok := f.get(durable.JournalIndex)
	if !ok {
		return
	}
	keys, err := f.place.Keys(a.Records[0])
	if err != nil {
		w.fail("follower: %v", err)
		return
	}
	if len(keys) == 0 {
		return
	}
	if a, ok = f.get(keys...); !ok {
		return
	}
	events, after, err := f.place.Next(a.Records)
	if gone := (*durable.GoneError)(nil); errors.As(err, &gone) {
		f.pass(gone.Next)
		return
	}
	if err != nil {
		w.fail("follower: %v", err)
		return
	}
	all := f.r.judge.shards[f.shard].events
	for _, e := range events {
		if f.place.Number == 0 && e.Place.Number > 1 {
			f.pass(e.Place.Number)
		}
		if e.Place.Number != f.place.Number+1 || e.Place.Number > uint64(len(all)) {
			w.fail("invariant 7: event %d is read behind %d of %d", e.Place.Number, f.place.Number, len(all))
			return
		}
		if want := all[e.Place.Number-1]; want.entity != e.Entity || want.version != e.Version || !bytes.Equal(want.event, e.Event) {
			w.fail("invariant 7: event %d is of %s v%d, in the log of %s v%d", e.Place.Number, e.Entity, e.Version, want.entity, want.version)
			return
		}
		f.place = e.Place
		f.r.counts.Followed++
	}
	f.place = after
	if f.place.Chunk > 2 && f.r.server.record(f.shard, "j1").Revision == 0 && f.first == 0 {
		f.first = 1
		f.r.counts.Deleted++
	}
}

// pass goes on at the oldest event that is kept. The judge has seen why those before it are gone.
func (f *follower) pass(next uint64) {
	if f.r.plan.journaling.Followers {
		f.r.w.fail("invariant 7: events %d to %d were deleted before they were read", f.place.Number+1, next-1)
	}
	f.r.counts.Gone += int(next - 1 - f.place.Number)
	f.place.Number = next - 1
}

func (f *follower) get(ids ...string) (durable.Response, bool) {
	a, err := f.r.server.serve(reader, f.shard, durable.Request{Op: durable.OpGet, IDs: ids})
	if err != nil {
		f.r.w.fail("follower: %v", err)
	}
	return a, err == nil && a.Outcome == durable.OK && len(a.Records) == len(ids)
}

// followed reports whether all events were read.
func (r *run) followed() bool {
	for _, f := range r.followers {
		if f.place.Number < uint64(len(r.judge.shards[f.shard].events)) {
			return false
		}
	}
	return true
}

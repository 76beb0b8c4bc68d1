package shard

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Position says how far a follower has read the events of a type. It is text without spaces, of
// at most about twenty bytes for each shard, and stays valid over restarts and moves. The empty
// position is the beginning: the oldest events that are kept. Every other position says for each
// shard which event was read last, or that the shard had no event yet. If events after the position
// are deleted before the follower reads them, the follower gets [ErrEventsGone].
type Position string

// An Event is an event that an entity recorded and committed.
type Event[E any] struct {
	Entity string // the id, as on the wire
	// Version is the entity's version. It grows by one with each commit, and all events of one
	// commit have the same version. It begins with 1 again in the next life of an entity: after the
	// entity has expired, or some time after [Forget]. So a version equal to the last one does not
	// prove that the event is a repetition.
	Version uint64
	At      time.Time // when the turn ended, by the clock of the entity's node
	// Shard and Number identify the event. The numbers of a shard's events grow by one, without
	// gaps, so an event whose number is not above the last one of its shard is a repetition.
	Shard  uint32
	Number uint64
	Event  E
	// Position is the position after this event. A follower that stores it can continue behind this
	// event.
	Position Position
}

// Errors of loops that follow events; test with errors.Is.
var (
	// ErrEventsGone means that events were deleted before the follower had read them. To keep
	// events longer, set keep= in the directive, or give the follower a name and set keep=followed.
	ErrEventsGone = errors.New("the events are no longer kept")
	// ErrPosition means that the position is not of this type, or a restore put the store or a
	// shard back to an earlier state, so events already read are gone or replaced. Follow again
	// without a position, or under another name.
	ErrPosition = errors.New("the position does not fit the events of this type")
	// ErrFollowed means that another loop, in this or another process, now follows under this name.
	ErrFollowed = errors.New("another follower has this name")
)

// An EventsOption configures a loop that follows events.
type EventsOption func(*eventsOptions)

type eventsOptions struct {
	name   *string // nil: none
	now    bool
	entity *string           // nil: all
	part   *durablehost.Part // nil: all
}

// FromNow makes a loop without a position begin with new events: those committed after the loop's
// first reads, and perhaps those committed up to a second before these reads. Without FromNow such
// a loop begins with the oldest events. FromNow has no effect on a loop that continues at a given
// position or at the position stored for its name.
func FromNow() EventsOption {
	return func(o *eventsOptions) { o.now = true }
}

// OfEntity lets a loop follow one entity, by its id as on the wire. The loop reads only the journal
// of the entity's shard, so its positions are valid only for loops with the same option. OfEntity
// cannot be combined with a [FollowerName].
func OfEntity(id string) EventsOption {
	return func(o *eventsOptions) { o.entity = &id }
}

// OfPart makes a loop read only part i of the type's shards, so that several loops share the work.
// n is the number of parts, at most the number of the type's shards; i is from 0 to n-1. A position
// is valid only for its part. Under a [FollowerName] each part has its own record. Later loops of
// the name may use another n: they continue where the former loops were. [Daemons] can run one loop
// for each part.
func OfPart(i, n int) EventsOption {
	return func(o *eventsOptions) { o.part = &durablehost.Part{Number: i, Of: n} }
}

// FollowerName gives a follower a name of 1 to 64 letters, digits, _ and -; with any other name the
// loop fails at once. The follower's position is written to the store about once a second and when
// the loop ends. An event at which the loop breaks or panics does not count as read. A loop that
// begins with the empty position continues at the position stored for its name.
//
// A new loop takes the name over: the former loop ends with [ErrFollowed] about a second later, or
// when the store answers again. Until then both may get the same events. Types with keep=followed
// keep the events that a named follower has not read.
func FollowerName(name string) EventsOption {
	return func(o *eventsOptions) { o.name = &name }
}

// followPause is how long a follower waits after a read that found no new events. An event is in
// the journal about 250 ms after its commit.
const (
	followPause  = 250 * time.Millisecond
	followSave   = time.Second
	followAnswer = 5 * time.Second // bounds one answer of the store
	// followWarn is how long a follower waits for the store before it logs a warning; it repeats
	// the warning every followWarnEach.
	followWarn     = 10 * time.Second
	followWarnEach = 5 * time.Minute
)

// FollowEvents is called by generated code only.
func FollowEvents[E any](ctx context.Context, p codegen.Invoker, from Position, decode func(codegen.Decoder) (E, error), opts ...EventsOption) iter.Seq2[Event[E], error] {
	return func(yield func(Event[E], error) bool) {
		err := follow(ctx, p, from, opts, func(f *following, shard int, all []durable.Recorded) error {
			for _, r := range all {
				event, err := eventOf(f, shard, r, decode)
				if err != nil {
					return err
				}
				event.Position = f.after(shard, r)
				if !yield(event, nil) {
					return errStop
				}
				if err := f.done(ctx, shard, r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			yield(Event[E]{}, err)
		}
	}
}

// FollowEventBatches is called by generated code only.
func FollowEventBatches[E any](ctx context.Context, p codegen.Invoker, from Position, decode func(codegen.Decoder) (E, error), opts ...EventsOption) iter.Seq2[[]Event[E], error] {
	return func(yield func([]Event[E], error) bool) {
		err := follow(ctx, p, from, opts, func(f *following, shard int, all []durable.Recorded) error {
			batch := make([]Event[E], 0, len(all))
			var bad error
			for _, r := range all {
				event, err := eventOf(f, shard, r, decode)
				if bad = err; err != nil {
					break
				}
				batch = append(batch, event)
			}
			if n := len(batch); n > 0 {
				last := all[n-1]
				batch[n-1].Position = f.after(shard, last)
				if !yield(batch, nil) {
					return errStop
				}
				if err := f.done(ctx, shard, last); err != nil {
					return err
				}
			}
			return bad
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

func eventOf[E any](f *following, shard int, r durable.Recorded, decode func(codegen.Decoder) (E, error)) (Event[E], error) {
	event, err := decode(codegen.NewDecoder(r.Event))
	if err != nil {
		return Event[E]{}, fmt.Errorf("events of %s: event %d of shard %d: %w", f.kind, r.Place.Number, f.Number(shard), err)
	}
	return Event[E]{
		Entity: r.Entity, Version: r.Version, At: time.UnixMilli(r.At), Shard: uint32(f.Number(shard)), Number: r.Place.Number, Event: event,
	}, nil
}

// follow passes events, of one shard at a time, to each, and returns the first error, or nil if the
// user left the loop.
func follow(ctx context.Context, p codegen.Invoker, from Position, opts []EventsOption, each func(f *following, shard int, all []durable.Recorded) error) error {
	f, err := newFollowing(p, from, opts)
	if err == nil {
		err = f.begin(ctx)
	}
	if err != nil {
		return err
	}
	defer f.end(ctx)
	for err == nil {
		err = f.round(ctx, each)
	}
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// after returns the position behind an event. The follower's own place moves only in done, because
// the loop's body may fail at the event or panic.
func (f *following) after(shard int, r durable.Recorded) Position {
	before := f.Places[shard]
	defer func() { f.Places[shard] = before }()
	f.Read(shard, r)
	return f.position()
}

// done moves the follower's place past an event, and stores the position if that is due.
func (f *following) done(ctx context.Context, shard int, r durable.Recorded) error {
	f.Read(shard, r)
	f.dirty = true
	return f.save(ctx)
}

var errStop = errors.New("the loop has ended")

type following struct {
	durablehost.Follower
	kind  string
	from  Position
	only  *string    // the id of the only entity that is followed; nil means all are
	name  *ownedName // nil: none
	saved time.Time  // when storing the position was last tried
	dirty bool       // the store lacks the latest position
	begun bool       // the position names a place in each shard

	log    *slog.Logger
	away   time.Time // since when the store has not answered; zero means it answers
	logged time.Time // when this was logged last
}

func newFollowing(p codegen.Invoker, from Position, opts []EventsOption) (*following, error) {
	k := node.CalledBy(p)
	if k == nil {
		return nil, errors.New("events: the caller is neither a Node nor a Conn (make the client with one of them)")
	}
	backend := k.Driver.Config.Store
	if backend == nil {
		return nil, fmt.Errorf("events of %s: no store (set Config.Store: events are read there)", k.Desc.Name)
	}
	var options eventsOptions
	for _, o := range opts {
		o(&options)
	}
	var part durablehost.Part
	f := &following{kind: k.Desc.Name, from: from, only: options.entity, log: k.Driver.Logger}
	if options.name != nil && options.entity != nil {
		return nil, fmt.Errorf("events of %s: shard.OfEntity with shard.FollowerName: a name has the positions of all shards (keep Event.Position instead)", k.Desc.Name)
	}
	switch p := options.part; {
	case p != nil && options.entity != nil:
		return nil, fmt.Errorf("events of %s: shard.OfEntity with shard.OfPart (one entity's events are in one shard)", k.Desc.Name)
	case p != nil && (p.Of < 1 || p.Of > int(k.Shards) || p.Number < 0 || p.Number >= p.Of):
		return nil, fmt.Errorf("events of %s: part %d of %d (want a part from 0 on, of at most %d parts, the type's shards)", k.Desc.Name, p.Number, p.Of, k.Shards)
	case p != nil:
		part = *p
	}
	if options.name != nil {
		if err := transport.CheckName("follower", *options.name); err != nil {
			return nil, fmt.Errorf("events of %s: %w (shard.FollowerName)", k.Desc.Name, err)
		}
		f.name = newOwnedName(k, *options.name, part, f.answered)
	}
	f.Follower = durablehost.NewFollower(backend.Shards(), k.Desc.Name, int(k.Shards))
	f.AtEnd, f.Part = options.now, part
	if f.only != nil {
		hash, err := p.Hash(*f.only)
		if err != nil {
			return nil, fmt.Errorf("events of %s: %w (shard.OfEntity)", k.Desc.Name, err)
		}
		f.Part = durablehost.Part{Number: int(placement.ShardOf(hash, k.Shards) - k.Shards), Of: int(k.Shards)}
	}
	return f, nil
}

func (f *following) begin(ctx context.Context) error {
	if f.from != "" {
		if err := f.take(f.from); err != nil {
			return err
		}
	}
	if f.name == nil {
		return nil
	}
	places, err := f.name.take(ctx, f.Places, f.from == "")
	f.Places, f.saved, f.dirty = places, time.Now(), !f.name.taken
	return err
}

// round reads all journals of the type once, then waits followPause if there were no new events.
func (f *following) round(ctx context.Context, each func(f *following, shard int, all []durable.Recorded) error) error {
	all, err := f.Poll(ctx)
	gone, lost := (*durable.GoneError)(nil), (*durable.LostError)(nil)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &gone):
		return fmt.Errorf("events of %s: %w: %w", f.kind, ErrEventsGone, err)
	case errors.Is(err, durable.ErrCorrupt), errors.Is(err, durable.ErrNewer), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("events of %s: %w", f.kind, err)
	case errors.As(err, &lost):
		return fmt.Errorf("events of %s: %w: %w", f.kind, ErrPosition, err)
	}
	f.answered(err)
	if f.Begun() && !f.begun {
		f.begun, f.dirty = true, true
	}
	any := false // the next round asks again for missing answers
	for shard, events := range all {
		if len(events) == 0 {
			continue
		}
		any = true
		if last := events[len(events)-1]; f.only != nil {
			if events = f.ofEntity(events); len(events) == 0 {
				f.Read(shard, last) // a loop with OfEntity has no name, so no position is stored
				continue
			}
		}
		if err := each(f, shard, events); err != nil {
			return err
		}
	}
	if err := f.save(ctx); err != nil || any {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(followPause):
		return nil
	}
}

// ofEntity returns the followed entity's events among all.
func (f *following) ofEntity(all []durable.Recorded) (its []durable.Recorded) {
	for _, r := range all {
		if r.Entity == *f.only {
			its = append(its, r)
		}
	}
	return its
}

// answered gets the error of each read, nil if the store answered. While the store does not answer,
// answered logs occasionally that the loop waits.
func (f *following) answered(err error) {
	now := time.Now()
	switch {
	case err == nil:
		f.away = time.Time{}
	case f.away.IsZero():
		f.away = now
	case now.Sub(f.away) >= followWarn && now.Sub(f.logged) >= followWarnEach:
		f.logged = now
		f.log.Warn("a follower of events waits for the store", "kind", f.kind, "err", err)
	}
}

// save stores a named follower's position, or checks that the loop owns the name. A later call
// repeats an unanswered write.
func (f *following) save(ctx context.Context) error {
	if f.name == nil || time.Since(f.saved) < followSave {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, followAnswer)
	defer cancel()
	f.saved = time.Now()
	if !f.dirty {
		return f.name.look(ctx)
	}
	stored, err := f.name.save(ctx, f.Places)
	f.dirty = !stored
	return err
}

// end stores the last position, even if ctx has ended.
func (f *following) end(ctx context.Context) {
	if f.dirty {
		f.saved = time.Time{}
		_ = f.save(context.WithoutCancel(ctx)) // the next follower begins a little earlier then
	}
}

// positionFormat is the prefix of every new position. Positions with the prefix
// positionFormatBefore have no checksums of events. In a shard for which such a position names no
// event, reading begins at the oldest event.
const (
	positionFormat       = "2."
	positionFormatBefore = "1."
)

func (f *following) position() Position {
	b := binary.AppendUvarint(nil, uint64(len(f.Places)))
	for _, p := range f.Places {
		b = binary.AppendUvarint(binary.AppendUvarint(b, p.Chunk), p.Number)
		b = binary.AppendUvarint(b, uint64(p.Sum))
	}
	return Position(positionFormat + f.kind + "." + base64.RawURLEncoding.EncodeToString(b))
}

// take sets the follower to position p. If p is refused, take changes nothing.
func (f *following) take(p Position) error {
	bad := fmt.Errorf("events of %s: %w: %q", f.kind, ErrPosition, clip(string(p)))
	text, ok := strings.CutPrefix(string(p), positionFormat+f.kind+".")
	summed := ok
	if !ok {
		text, ok = strings.CutPrefix(string(p), positionFormatBefore+f.kind+".")
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil {
		return bad
	}
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	if next() != uint64(len(f.Places)) {
		return bad
	}
	places := make([]durable.Place, len(f.Places))
	for i := range places {
		places[i] = durable.Place{Chunk: next(), Number: next()}
		if summed {
			sum := next()
			places[i].Sum = uint32(sum)
			ok = ok && sum <= math.MaxUint32
		}
	}
	if !ok || len(b) > 0 {
		return bad
	}
	f.Places = places
	return nil
}

// A Journal is a field of a durable entity whose methods decide and record events:
//
//	type Account struct {
//		ID      string `shard:"id"`
//		Balance int64  `shard:"state"`
//		Journal shard.Journal[Entry]
//	}
//
//	func (a *Account) Apply(e Entry) { a.Balance += e.Amount }
//
//	func (a *Account) Deposit(_ context.Context, amount int64) (int64, error) {
//		a.Journal.Record(a, Entry{Amount: amount})
//		return a.Balance, nil
//	}
//
// The store's log gets a turn's events instead of the state. Clients follow the events of all
// entities of the type with the generated method Events.
type Journal[E any] = codegen.Journal[E]

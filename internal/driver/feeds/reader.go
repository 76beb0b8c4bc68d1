package feeds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/feed"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/util/tasks"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/stream"
)

const (
	answerWithin = 5 * time.Second // bounds one answer of the store or the source
	retryPause   = 250 * time.Millisecond
	tickEach     = 100 * time.Millisecond
	saveEach     = time.Second
	lookEach     = 5 * time.Second // how often an idle reader looks for commands of operators
	// Messages are read in batches, because small appends of many shards would cost the store most
	// of its time. The next batch is read when most of the last one is finished, or after
	// lingerFor.
	lingerFor  = 20 * time.Millisecond
	lingerPart = 8 // 1/lingerPart of the window may be unfinished when the next batch is read
	warnEach   = time.Minute
	maxFailing = 5 // largest length of Record.Failing
	maxWhy     = 1024
	takeBytes  = 1 << 20 // of tells, after which the messages of a batch are added
	// A letter's message counts as deleted if the source has not sent it within sentWithin, fetchTries
	// times.
	sentWithin = 2 * time.Second
	fetchTries = 3
	// maxLetters bounds the dead letters of a partition. Above it, reading stops until operators
	// have removed some.
	maxLetters = 1000
)

// errAgain ends a session because an operator has changed the record. A new session follows.
var errAgain = errors.New("an operator has set the position")

// A reader reads one partition.
type reader struct {
	*Feed
	partition int
	warned    atomic.Int64 // when it logged an error last, in Unix nanoseconds
}

// run reads until ctx ends. After an error it begins again at the stored position.
func (r *reader) run(ctx context.Context) {
	for {
		err := r.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, errAgain) {
			r.warn("a feed cannot read its stream; it tries again", err)
		}
		if !tasks.Rest(ctx, retryPause) {
			return
		}
	}
}

// warn logs an error that may repeat, at most once in warnEach.
func (r *reader) warn(what string, err error) {
	last, now := r.warned.Load(), time.Now().UnixNano()
	if now-last >= int64(warnEach) && r.warned.CompareAndSwap(last, now) {
		r.Log.Warn(what, "feed", r.Name, "partition", r.partition, "err", err)
	}
}

// session reads from the stored position on, until ctx ends or an error occurs.
func (r *reader) session(ctx context.Context) error {
	s := &session{reader: r, room: make(chan struct{}, 1)}
	if err := s.begin(ctx); err != nil {
		return err
	}
	ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	var ticks sync.WaitGroup
	ticks.Go(func() { s.tick(ctx) })
	err := s.read(ctx)
	s.cancel(err)
	ticks.Wait()
	s.mu.Lock()
	s.over = true
	s.Counts.Waiting.Add(-int64(s.counted))
	s.mu.Unlock()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	end, done := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer done()
	if !errors.Is(err, errAgain) && s.Context.Err() == nil {
		_, _ = s.save(end) // if this fails, the next reader begins a little earlier
	}
	return err
}

// A session reads a partition from one position on.
type session struct {
	*reader
	cancel   context.CancelCauseFunc
	messages stream.Messages // used by read only
	stream   string          // identity of the stream
	after    uint64          // position after which the session begins
	lost     atomic.Uint64   // messages that were deleted before they could be read
	room     chan struct{}   // gets a value when tells have finished

	// Used by one goroutine at a time.
	record   Record
	revision store.Revision
	saved    time.Time
	looked   time.Time
	asked    time.Time // when requeue was called last by tick
	missed   uint64    // the part of lost that is in record.Missed
	unsent   int       // how often in succession the source has not sent a letter's message in time
	letters  int64     // letters stored minus letters deleted since record.Dead was written; operators change record.Dead, too

	mu      sync.Mutex // guards the rest
	main    lane
	again   lane // for letters that must be applied again
	counted int  // this session's part of Counts.Waiting
	dirty   bool
	over    bool // nothing is sent any more
}

// A session's lane holds one command source's commands: for new messages, or requeued letters.
type lane struct {
	*feed.Window
	name   string // name of the source
	aside  atomic.Pointer[aside]
	dead   []feed.Dead       // dead letters to be stored
	number map[uint64]string // names of the requeued letters by number; only for again
}

// An aside holds the results of Window.Aside.
type aside struct {
	past  uint64
	stuck durable.Numbers
}

// begin reads the record and opens the source.
func (s *session) begin(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, answerWithin)
	defer done()
	identity, err := s.Source.Identity(ctx)
	if err != nil {
		return err
	}
	if s.record, s.revision, err = LoadRecord(ctx, s.Store, s.Name, s.partition); err != nil {
		return err
	}
	now := time.Now()
	s.saved, s.looked = now, now
	if before := s.record.Stream; before != identity {
		if before != "" {
			s.Log.Warn("a feed begins at the first message, because its stream was made again", "feed", s.Name, "partition", s.partition, "before", before, "stream", identity)
		}
		s.record.Stream, s.record.Position = identity, 1
		s.dirty = true
	}
	s.record.Position = max(s.record.Position, 1)
	s.stream, s.after = identity, s.record.Position-1
	if err := s.open(ctx, s.after); err != nil {
		if errors.Is(err, stream.ErrRewound) {
			err = fmt.Errorf("read from position %d: %w (if so, set the position with shardctl rewind %s; messages later than the copy need a new stream)", s.after, err, s.Name)
		}
		return err
	}
	s.main.Window = feed.New(s.record.Position, s.Config.Dead, s.Limits)
	s.main.name = durable.StreamSource(s.Name, identity)
	if n := s.record.Replays; n > 0 {
		s.main.name = durable.StreamSource(s.Name, fmt.Sprintf("%s:%d", identity, n)) // receivers have applied no commands of this source
	}
	first := s.record.Number + 1
	if len(s.record.Requeued) > 0 {
		first = s.record.Requeued[0].Number
	}
	s.again.Window = feed.New(first, s.Config.Dead, s.Limits)
	s.again.name = durable.StreamSource(s.Name, "again") // the numbers of this source go on when the stream is made again
	s.again.number = map[uint64]string{}
	return nil
}

// read reads messages, and maps them to tells, while the window has room.
func (s *session) read(ctx context.Context) error {
	defer func() { s.messages.Close() }()
	last, closed := s.after, uint64(0) // closed counts what earlier openings of the source have missed
	sent := time.Time{}
	for {
		room, err := s.await(ctx, sent)
		if err != nil {
			return err
		}
		all, err := s.messages.Next(ctx, room)
		if err != nil {
			closed = s.lost.Load() // the next opening counts again what was missed after the last message
			if err := s.reopen(ctx, last, err); err != nil {
				return err
			}
			continue
		}
		s.lost.Store(closed + s.messages.Missed())
		last, sent = all[len(all)-1].Position, time.Now()
		s.Counts.Read.Add(uint64(len(all)))
		for {
			if all, err = s.take(ctx, all, room); err != nil {
				return err
			}
			if len(all) == 0 {
				break
			}
			if room, err = s.await(ctx, time.Time{}); err != nil {
				return err
			}
		}
	}
}

// take maps messages to tells and adds these to the window, until there are room tells or takeBytes
// bytes. It returns the other messages.
func (s *session) take(ctx context.Context, all []stream.Message, room int) (left []stream.Message, err error) {
	tells, errs := make([][]durable.Tell, 0, len(all)), make([]error, 0, len(all))
	for bytes := 0; len(tells) < len(all) && room > 0 && bytes < takeBytes; {
		some, err := s.Host.Map(ctx, all[len(tells)])
		tells, errs = append(tells, some), append(errs, err)
		room -= max(len(some), 1)
		for _, t := range some {
			bytes += len(t.Body)
		}
	}
	if ctx.Err() != nil { // the end of ctx may have caused the function's errors
		return nil, ctx.Err()
	}
	s.do(ctx, func(time.Time) {
		for i, m := range all[:len(tells)] {
			s.main.add(m.Position, tells[i], errs[i])
		}
		s.dirty = true
	})
	return all[len(tells):], nil
}

// reopen opens the source again after position last, because reading has failed with the error why.
// It tries until the source answers. It fails only if the stream was restored or made again, or if
// ctx has ended.
func (s *session) reopen(ctx context.Context, last uint64, why error) error {
	s.messages.Close()
	for tasks.Rest(ctx, retryPause) {
		s.warn("a feed cannot read its stream; it tries again", why)
		if why = s.open(ctx, last); why == nil || errors.Is(why, stream.ErrRewound) || errors.Is(why, errOther) {
			return why
		}
	}
	return ctx.Err()
}

// errOther means that the stream was deleted and made again.
var errOther = errors.New("the stream was made again")

// open opens the source. Only after that it checks that the stream still has the identity that the
// session knows. In this order the check cannot miss another stream, because a changed identity
// never comes back.
func (s *session) open(ctx context.Context, after uint64) error {
	ctx, done := context.WithTimeout(ctx, answerWithin)
	defer done()
	messages, err := s.Source.Open(ctx, s.partition, after)
	if err != nil && !errors.Is(err, stream.ErrRewound) {
		return err
	}
	identity, failed := s.Source.Identity(ctx)
	switch {
	case failed == nil && identity != s.stream:
		failed = errOther
	case failed == nil:
		failed = err
	}
	switch {
	case failed == nil:
		s.messages = messages
	case err == nil:
		messages.Close()
	}
	return failed
}

func (l *lane) add(position uint64, tells []durable.Tell, err error) {
	if err != nil {
		l.Fail(position, bounded.TextUpTo(maxWhy, err.Error()))
	} else {
		l.Add(position, tells)
	}
}

// await waits until the next batch may be read, and returns how many messages this batch may have.
func (s *session) await(ctx context.Context, last time.Time) (room int, err error) {
	linger := time.NewTimer(lingerFor - time.Since(last))
	defer linger.Stop()
	for {
		s.mu.Lock()
		few := s.main.Few(lingerPart)
		room = s.main.Room()
		s.mu.Unlock()
		if room > 0 && (few || time.Since(last) >= lingerFor) {
			return room, ctx.Err()
		}
		select {
		case <-s.room:
		case <-linger.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// do calls change, which changes the lanes, and then sends the tells that are due.
func (s *session) do(ctx context.Context, change func(now time.Time)) {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	change(time.Now())
	main, again := s.takeLocked(&s.main), s.takeLocked(&s.again)
	waits := s.main.Unfinished() + s.again.Unfinished()
	s.Counts.Waiting.Add(int64(waits - s.counted))
	s.counted = waits
	s.mu.Unlock()
	s.send(ctx, &s.main, main)
	s.send(ctx, &s.again, again)
}

func (s *session) takeLocked(l *lane) []durable.Tell {
	out := l.Take()
	l.dead = append(l.dead, out.Dead...)
	for _, d := range out.Known {
		at, _ := feed.PositionOf(d.Number)
		s.Log.Warn("a message that was already applied is now mapped to another tell: the new tell is not applied", "feed", s.Name, "partition", s.partition,
			"position", at, "kind", d.Target.Log, "entity", d.Entity)
	}
	if past, stuck := l.Aside(); past > 0 {
		l.aside.Store(&aside{past, stuck})
	} else if l.aside.Load() != nil {
		l.aside.Store(nil)
	}
	return out.Send
}

func (s *session) send(ctx context.Context, l *lane, tells []durable.Tell) {
	if len(tells) == 0 {
		return
	}
	s.Host.Send(ctx, s.partition, tells,
		func(t durable.Tell) durablehost.ID { return s.id(l, t) },
		func(tells []durable.Tell, r feed.Result, why error) { s.ended(ctx, l, tells, r, why) })
}

func (s *session) id(l *lane, t durable.Tell) durablehost.ID {
	id := durablehost.ID{Log: durable.Target{Log: l.name, Shard: uint32(s.partition)}, Number: t.Number, Floor: t.Floor}
	if a := l.aside.Load(); a != nil {
		all, _ := a.stuck.Slice() // the numbers were encoded by this process
		id.Floor, id.Past, id.Stuck = min(all[0], t.Number), a.past, a.stuck
	}
	return id
}

func (s *session) ended(ctx context.Context, l *lane, tells []durable.Tell, r feed.Result, why error) {
	text := ""
	if why != nil {
		text = bounded.TextUpTo(maxWhy, why.Error())
	}
	if r == feed.Failed {
		s.Counts.Failed.Add(uint64(len(tells)))
	} else if r == feed.Committed || r == feed.Finished {
		s.Counts.Done.Add(uint64(len(tells)))
	}
	s.do(ctx, func(now time.Time) {
		for _, t := range tells {
			l.Ended(now, t.Number, r, text)
		}
		s.dirty = true
	})
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// tick does the periodic work: it sends unfinished tells again, stores dead letters and the
// position, and carries out operators' commands.
func (s *session) tick(ctx context.Context) {
	timer := time.NewTicker(tickEach)
	defer timer.Stop()
	s.requeue(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		s.do(ctx, func(now time.Time) {
			s.main.Tick(now)
			s.again.Tick(now)
		})
		s.bury(ctx, &s.main)
		s.bury(ctx, &s.again)
		if err := s.keep(ctx); errors.Is(err, errAgain) {
			s.cancel(err)
			return
		} else if err != nil && ctx.Err() == nil {
			s.warn("a feed cannot write its position; it tries again", err)
		}
		if len(s.record.Requeued) > 0 && time.Since(s.asked) >= saveEach {
			s.asked = time.Now()
			s.requeue(ctx)
		}
	}
}

// keep stores the position if it has changed. Otherwise it reads the record from time to time.
func (s *session) keep(ctx context.Context) error {
	now := time.Now()
	s.mu.Lock()
	dirty := s.dirty || s.lost.Load() != s.missed || !s.again.Idle() || len(s.record.Requeued) > 0
	s.mu.Unlock()
	ctx, done := context.WithTimeout(ctx, answerWithin)
	defer done()
	switch {
	case dirty && now.Sub(s.saved) >= saveEach:
		s.saved, s.looked = now, now
		_, err := s.save(ctx)
		return err
	case now.Sub(s.looked) >= lookEach:
		s.looked = now
		found, at, err := LoadRecord(ctx, s.Store, s.Name, s.partition)
		if err != nil || at <= s.revision {
			return err
		}
		return s.adopt(ctx, found, at)
	}
	return nil
}

// save writes the record. After a conflict, stored is false: save has taken over the other writer's
// record, and the next save replaces that.
func (s *session) save(ctx context.Context) (stored bool, err error) {
	s.mu.Lock()
	next := s.record
	next.Position = max(s.main.Position(), next.Position)
	next.Waiting, next.Failing = s.main.Unfinished()+s.again.Unfinished(), nil
	for _, f := range s.main.Failing() {
		if len(next.Failing) == maxFailing {
			break
		}
		at, _ := feed.PositionOf(f.Number)
		next.Failing = append(next.Failing, Failing{at, f.Target.Log, f.Entity, f.Why})
	}
	missed := s.lost.Load()
	next.Missed += missed - s.missed
	next.Dead = s.dead()
	next.Node, next.At, next.Why = s.Node, time.Now(), ""
	if next.Dead >= maxLetters {
		next.Why = fmt.Sprintf("it has %d dead letters, the most allowed: reading continues when some are removed", next.Dead)
	}
	s.dirty = false
	s.mu.Unlock()
	at, err := SaveRecord(ctx, s.Store, s.Name, s.partition, next, s.revision)
	if err == nil {
		s.Counts.Missed.Add(missed - s.missed)
		s.record, s.revision, s.missed, s.letters = next, at, missed, 0
		return true, nil
	}
	s.mu.Lock()
	s.dirty = true
	s.mu.Unlock()
	if !errors.Is(err, store.ErrConflict) {
		return false, err
	}
	found, at, err := LoadRecord(ctx, s.Store, s.Name, s.partition)
	if err != nil {
		return false, err
	}
	return false, s.adopt(ctx, found, at)
}

// adopt replaces the session's record by found, which another process has written.
func (s *session) adopt(ctx context.Context, found Record, at store.Revision) error {
	if found.Rewinds != s.record.Rewinds || found.Stream != s.record.Stream {
		return errAgain
	}
	found.Position = max(found.Position, s.record.Position)
	s.record, s.revision = found, at
	s.requeue(ctx)
	return nil
}

// requeue begins to apply the dead letters that an operator has requeued.
func (s *session) requeue(ctx context.Context) {
	for _, q := range s.record.Requeued {
		s.mu.Lock()
		_, begun := s.again.number[q.Number]
		full := s.again.Room() == 0
		s.mu.Unlock()
		if begun {
			continue
		}
		if full {
			break // requeue is called again
		}
		letter, _, err := s.letter(ctx, q.Letter)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return // requeue is called again
		}
		var tells []durable.Tell
		if err == nil {
			tells, err = s.Host.Map(ctx, letter.message())
			if ctx.Err() != nil {
				return
			}
			switch {
			case err != nil:
			case letter.Kind != "" && letter.Part < len(tells):
				tells = tells[letter.Part : letter.Part+1] // its other tells have been applied
			case letter.Kind != "":
				err = fmt.Errorf("the function now maps the message to %d tells, but the dead letter is tell number %d", len(tells), letter.Part+1)
			}
		} else {
			err = nil // an operator has deleted the letter
		}
		s.do(ctx, func(time.Time) {
			s.again.number[q.Number] = q.Letter
			s.again.add(q.Number, tells, err)
		})
	}
	s.settle(ctx)
}

// settle deletes the requeued letters that were applied.
func (s *session) settle(ctx context.Context) {
	s.mu.Lock()
	floor := s.again.Position()
	s.mu.Unlock()
	for len(s.record.Requeued) > 0 && s.record.Requeued[0].Number < floor {
		q := s.record.Requeued[0]
		_, at, err := s.letter(ctx, q.Letter)
		if err == nil {
			err = s.Store.Delete(ctx, LetterKey(s.Name, q.Letter), at)
		}
		switch {
		case err == nil:
			s.letters--
		case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict):
			return // settle is called again
		}
		s.record.Requeued = s.record.Requeued[1:]
		s.mu.Lock()
		s.dirty = true
		s.mu.Unlock()
	}
}

// dead returns how many dead letters the partition has.
func (s *session) dead() uint64 { return uint64(max(int64(s.record.Dead)+s.letters, 0)) }

func (s *session) letter(ctx context.Context, name string) (Letter, store.Revision, error) {
	ctx, done := context.WithTimeout(ctx, answerWithin)
	defer done()
	found, err := s.Store.Get(ctx, LetterKey(s.Name, name))
	if err != nil {
		return Letter{}, store.None, err
	}
	l, err := ParseLetter(found)
	return l, found.Revision, err
}

func (l *Letter) message() stream.Message {
	header := maps.Clone(l.Header)
	for name, values := range l.Binary {
		if header == nil {
			header = map[string][]string{}
		}
		for _, v := range values {
			header[name] = append(header[name], string(v))
		}
	}
	return stream.Message{Position: l.Position, Subject: l.Subject, Header: header, Data: l.Data, Time: l.Time}
}

// bury stores the dead letters of a lane.
func (s *session) bury(ctx context.Context, l *lane) {
	if l == &s.again {
		defer s.settle(ctx)
	}
	for {
		s.mu.Lock()
		var d feed.Dead
		some := len(l.dead) > 0
		if some {
			d = l.dead[0]
		}
		s.mu.Unlock()
		if !some || l == &s.main && s.dead() >= maxLetters {
			return
		}
		if err := s.store(ctx, l, d); err != nil {
			if ctx.Err() == nil {
				s.warn("a feed cannot store a dead letter; it tries again", err)
			}
			return
		}
		s.Counts.Dead.Add(1)
		s.do(ctx, func(time.Time) {
			l.dead = l.dead[1:]
			l.Buried(d.Number)
			s.dirty = true
		})
		select {
		case s.room <- struct{}{}:
		default:
		}
	}
}

func (s *session) store(ctx context.Context, l *lane, d feed.Dead) error {
	at, part := feed.PositionOf(d.Number)
	letter := Letter{Feed: s.Name, Partition: s.partition, Stream: s.record.Stream, Position: at, Part: part}
	revision := store.None
	name := LetterName(s.partition, d.Number)
	if l == &s.again {
		var err error
		name = s.again.number[at]
		letter, revision, err = s.letter(ctx, name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil
		case err != nil:
			return err
		case letter.Kind == "" && d.Target.Log != "": // settle deletes the message's letter when all its tells are finished
			letter.Part, revision, name = part, store.None, fmt.Sprint(name, "-p", part)
		default: // the letter stays in the store, with the new reason
			if err := s.unqueue(ctx, at); err != nil {
				return err
			}
		}
	} else if err := s.fetch(ctx, &letter); err != nil {
		return err
	}
	body, _ := durablehost.ReadBody(d.Body)
	letter.Format, letter.Kind, letter.Entity, letter.Method, letter.Why, letter.At = format, d.Target.Log, strings.ToValidUTF8(d.Entity, "�"), body.Method, d.Why, time.Now()
	ctx, done := context.WithTimeout(ctx, answerWithin)
	defer done()
	for base, i := name, 2; ; i++ {
		err := s.put(ctx, name, &letter, revision)
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		if revision != store.None {
			return nil // an operator has dropped the letter
		}
		there, _, err := s.letter(ctx, name)
		switch {
		case err != nil:
			return err
		case there.Stream == letter.Stream:
			return nil // another reader, or an attempt without an answer, has stored it
		}
		name = fmt.Sprint(base, "-", i) // the letter with this name is of a former stream
	}
	if revision == store.None {
		s.letters++
	}
	s.Log.Error("dead letter: a message of a stream was given up", "feed", s.Name, "partition", s.partition, "position", letter.Position,
		"kind", letter.Kind, "entity", letter.Entity, "method", letter.Method, "err", letter.Why)
	return nil
}

// put writes a letter. If the store refuses its size, put leaves the message out.
func (s *session) put(ctx context.Context, name string, l *Letter, revision store.Revision) error {
	for {
		value, err := json.Marshal(l)
		if err != nil {
			return err
		}
		if _, err = s.Store.Put(ctx, LetterKey(s.Name, name), value, revision); l.Left || !errors.Is(err, store.ErrTooLarge) {
			return err
		}
		l.Left, l.Data, l.Header, l.Binary = true, nil, nil, nil
	}
}

// unqueue removes a requeued letter that has failed again from the feed's record. The caller writes
// the letter itself only after that, because an operator who reads the letter may requeue it at
// once.
func (s *session) unqueue(ctx context.Context, number uint64) error {
	ctx, done := context.WithTimeout(ctx, answerWithin)
	defer done()
	for {
		s.record.Requeued = slices.DeleteFunc(slices.Clone(s.record.Requeued), func(q Requeued) bool { return q.Number == number })
		if stored, err := s.save(ctx); stored || err != nil {
			return err
		}
	}
}

// fetch reads the message of a letter from the stream again. If the message is gone or too large,
// the letter gets no data.
func (s *session) fetch(ctx context.Context, l *Letter) error {
	within, done := context.WithTimeout(ctx, answerWithin)
	defer done()
	messages, err := s.Source.Open(within, s.partition, l.Position-1)
	if err != nil {
		return err
	}
	defer messages.Close()
	identity, err := s.Source.Identity(within)
	if err == nil && identity != s.stream {
		err = errOther
	}
	if err != nil {
		return err
	}
	if l.Left = messages.Missed() > 0; l.Left {
		return nil
	}
	sent, done := context.WithTimeout(ctx, sentWithin)
	defer done()
	all, err := messages.Next(sent, 1)
	switch {
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		if s.unsent++; s.unsent < fetchTries {
			return err // the source may be slow
		}
		s.unsent = 0
		l.Left = true // the stream has no later message either
		return nil
	case err != nil:
		return err
	}
	s.unsent = 0
	m := all[0]
	if l.Left = m.Position != l.Position || len(m.Data) > maxLetterData; !l.Left {
		l.Data = m.Data
	}
	if m.Position == l.Position {
		l.Subject, l.Time = m.Subject, m.Time
		l.setHeader(m.Header)
	}
	return nil
}

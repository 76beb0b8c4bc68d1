package durable

import (
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// Config describes a shard to its new home.
type Config struct {
	// Epoch is the epoch under which the shard came here. A process uses one epoch for one [Shard]
	// only.
	Epoch uint64
	// Above is set if no coordinator gives out the shard's epochs. The claim then takes an epoch
	// above the head's. Epoch is then the lowest allowed: it is above all epochs that this process
	// has used for the shard.
	Above bool
	// Known is the last head of the shard that this process has written in an earlier tenure. An
	// older head in the store is not accepted. Zero means none.
	Known Mark
	// FirstTell is the lowest number of the tenure's tells; Epoch is used instead if it is higher.
	// It must be above the numbers of all earlier tenures: the store may have lost those tells, but
	// their receivers know the numbers. The Unix time in microseconds is high enough, if the clocks
	// of two processes differ by less than the shard takes to get from one to the other. A process
	// that has had the shard itself knows the [Shard.NextTell] of that tenure.
	FirstTell uint64
	// Node and Incarnation name the process. No other process has the incarnation, and it is not 0.
	Node        string
	Incarnation uint64
	Limits      Limits
	Journal     Journal
	Index       *Index // nil means none
}

// A Shard is one home's tenure of a shard: the time from its claim until the shard is dropped. A
// Shard is not safe for concurrent use. The times given to its methods must not go back.
//
// Invariants, in addition to the invariants of its parts:
//  1. Only claims are appended until the shard is open.
//  2. A record is written only while the head in the store is the one that this home wrote last.
//  3. A dropped shard makes no requests.
type Shard struct {
	config Config
	limits Limits
	state  State
	desk   desk
	out    Effects

	head       head // the head that this home wrote last
	claim      claim
	group      group
	tail       tail
	table      table
	outbox     outbox
	checkpoint checkpoint
	journal    journal
	loads      loads
	sweep      sweep
	verify     verify
	absent     absent
	catalog    catalog
	wakes      wakes
	messages   messages
	opened     time.Time // when the claim was complete
	base       Mark      // of the last head after which no record of an entity was written
	tell       bool      // tells may be due
}

// New returns a shard that begins its claim.
func New(now time.Time, c Config) *Shard {
	s := &Shard{
		config: c, limits: c.Limits.withDefaults(),
		tail:   tail{entities: map[string]*entity{}, generation: 1},
		table:  table{sources: map[Source]*known{}},
		outbox: outbox{pairs: map[Target]*pair{}},
		loads:  loads{asked: map[uint64]string{}, lines: map[string]*line{}}, catalog: newCatalog(c.Limits.withDefaults().LeafBytes), wakes: newWakes(),
	}
	s.desk = desk{now: now, pause: s.limits.Pause}
	s.group.limit = s.limits.AppendBytes
	s.journal = newJournal(c.Journal, s.limits.JournalPause)
	s.claim.begin(s, true)
	return s
}

// Epoch returns the epoch of the shard's claim. With [Config.Above] it can grow until the shard is
// open.
func (s *Shard) Epoch() uint64 { return s.config.Epoch }

// FixEpoch makes the claim of this tenure keep its epoch, whatever epoch the head in the store has.
// The process calls FixEpoch before its next tenure of the shard, which gets a higher epoch.
func (s *Shard) FixEpoch() { s.config.Above = false }

// State returns the stage of the shard's tenure.
func (s *Shard) State() State { return s.state }

// Take begins an append if possible, and returns the effects since the last Take or Hold.
func (s *Shard) Take() Effects {
	s.append()
	return s.Hold()
}

func (s *Shard) append() {
	if !s.Waiting() {
		return
	}
	if e := s.outbox.acknowledgements(); e != nil {
		s.group.add(e)
	}
	s.group.next(&s.desk, s)
}

// Waiting reports whether an append could begin now.
func (s *Shard) Waiting() bool {
	return s.state == Open && s.claim.step == stepNone && s.group.line.idle() && len(s.group.pending)+len(s.group.queue) > 0
}

// Hold returns the effects like Take, but begins no append. It is for a driver that expects more
// commits at once. The driver must call Take soon.
func (s *Shard) Hold() Effects {
	out := s.out
	s.out = Effects{}
	out.Requests, s.desk.out = s.desk.out, nil
	if s.state != Dropped {
		out.Durable = s.group.acked
	}
	if s.tell && s.state == Open {
		s.tell = false
		out.Tells = s.outbox.due(s.desk.now, s.limits.TellPause, s.group.acked)
	}
	return out
}

// Wake returns when Tick must be called at the latest.
func (s *Shard) Wake() time.Time {
	wake := s.desk.now.Add(time.Second)
	for _, l := range s.lines() {
		if !l.at.IsZero() && l.at.Before(wake) {
			wake = l.at
		}
	}
	if at := s.journal.due; !at.IsZero() && at.Before(wake) && !s.checkpoint.active && s.checkpoint.may(s) {
		wake = at
	}
	for _, sc := range s.catalog.pause {
		if sc.line.at.Before(wake) {
			wake = sc.line.at
		}
	}
	for _, id := range s.loads.pause {
		if at := s.loads.lines[id].at; at.Before(wake) {
			wake = at
		}
	}
	return wake
}

func (s *Shard) lines() []*line {
	return []*line{&s.claim.line, &s.claim.write.line, &s.group.line, &s.checkpoint.line, &s.checkpoint.write.line, &s.journal.line, &s.sweep.line, &s.verify.line, &s.catalog.walk.line}
}

// Tick passes the time to the shard. The shard then repeats failed requests, sends tells again or
// gives them up, and forgets silent callers.
func (s *Shard) Tick(now time.Time) {
	s.desk.now = now
	if s.state == Dropped {
		return
	}
	for _, l := range s.lines() {
		l.tick(&s.desk)
	}
	s.loads.tick(s)
	s.catalog.tick(s)
	if s.state == Open {
		s.tell = true
		s.table.forget(now.Add(-s.limits.Silent), now.Add(-nestedSilent*s.limits.DeadAfter))
		s.tickTells(now)
	}
	s.next()
}

// tickTells sends tells again or gives them up. A shard that has just opened gives up none, because
// tells of older homes may have arrived.
func (s *Shard) tickTells(now time.Time) {
	s.outbox.lookAgain(now)
	if now.Sub(s.opened) >= min(s.limits.DeadAfter, deadGrace) {
		if e := s.outbox.dead(now, s.limits.DeadAfter, s.group.acked); e != nil {
			s.group.add(e)
		}
	}
	if len(s.outbox.arrived) > 0 && now.Sub(s.outbox.since) >= s.limits.TellPause {
		e := s.outbox.acknowledgements()
		s.group.add(e)
	}
}

// Done handles the store's answer to a request. It ignores answers that the shard does not wait
// for.
func (s *Shard) Done(now time.Time, r Response) {
	s.desk.now = now
	if s.state == Dropped || r.ID == 0 {
		return
	}
	switch r.ID {
	case s.claim.line.id:
		s.claim.done(s, r)
	case s.claim.write.line.id:
		s.claim.headDone(s, r)
	case s.checkpoint.line.id:
		s.checkpoint.done(s, r)
	case s.checkpoint.write.line.id:
		s.checkpoint.headDone(s, r)
	case s.group.line.id:
		s.appended(r)
	case s.journal.line.id:
		s.journal.looked(s, r)
	case s.sweep.line.id:
		s.sweep.done(s, r)
	case s.catalog.walk.line.id:
		s.catalog.walk.answered(s, r)
	case s.verify.line.id:
		s.verify.done(s, r)
	default:
		if !s.catalog.done(s, r) {
			s.loads.done(s, r)
		}
	}
	s.next()
}

// Admit decides whether to run a command that arrived, to answer it again, or to refuse it.
func (s *Shard) Admit(now time.Time, c *Command) Admission {
	s.desk.now = now
	if s.state != Open {
		return Admission{Verdict: Closed}
	}
	f := s.table.decoded.finished(c)
	if f.has(c.Number) {
		return Admission{Verdict: BelowFloor}
	}
	if k := s.table.find(&c.Source); k != nil {
		k.heard = now
		s.table.raise(k, f)
		if a := k.admit(c); a.Verdict != Run {
			return a
		}
	}
	s.table.makeRoom(&s.limits, s.group.acked)
	if !c.Source.keyed() && s.overloaded(c.Number == c.Floor || c.Number < f.below) { // Keyed decides on commands with keys
		return Admission{Verdict: Overloaded}
	}
	k := s.table.source(&c.Source, now)
	s.table.raise(k, f)
	s.table.begin(k, c)
	return Admission{Verdict: Run}
}

// Keyed decides about a command with an idempotency key for an active entity, after [Shard.Admit]
// has returned Run. The entity keeps its last [KeysKept] keys for [KeyAge], with their answers.
// Keyed refuses a new key if the shard could not keep it for [Limits.Silent].
func (s *Shard) Keyed(now time.Time, id string, c *Command) Admission {
	s.desk.now = now
	e := s.tail.entities[id]
	if s.state != Open || e == nil || !e.loaded {
		return Admission{Verdict: Closed}
	}
	k, ok := findKey(e.last.keys, c.Key, now.UnixMilli())
	old := s.table.old.find(c.Key)
	switch {
	case ok && k.hash != c.Hash, !ok && old != nil && old.hash != c.Hash:
		return Admission{Verdict: Mismatch}
	case ok:
		if old != nil || s.table.keys+s.table.old.len() < s.limits.Keys { // later keys may push this one out of the entity
			s.table.old.put(oldKey{c.Key, c.Hash, now})
		}
		return Admission{Verdict: Replay, Answer: k.answer, Ticket: e.ticket}
	case old != nil:
		s.table.old.put(oldKey{c.Key, c.Hash, now})
		return Admission{Verdict: Forgotten, Ticket: e.ticket}
	case c.Source.keyed() && (s.overloaded(true) || s.table.keys+s.table.old.len() > s.limits.Keys):
		return Admission{Verdict: Overloaded}
	}
	return Admission{Verdict: Run}
}

// overloaded reports whether to refuse a command. The table's limits do not apply to a source's
// first unfinished or stuck command: until it is finished, the table cannot drop the ids above it.
func (s *Shard) overloaded(first bool) bool {
	l := &s.limits
	return s.tail.bytes+s.group.bytes >= refuseAt*l.TailBytes || s.tail.commits+len(s.group.pending) >= refuseAt*l.TailCommits ||
		!first && s.table.full(l) ||
		s.outbox.count >= l.Tells || s.outbox.bytes >= l.TellBytes
}

// Discard ends a command whose turn committed nothing. If the command comes again, it runs again.
func (s *Shard) Discard(c *Command) {
	if k := s.table.find(&c.Source); k != nil {
		if a := k.ids.get(name{c.Number, c.Path}); a != nil && a.running {
			s.table.drop(k, name{c.Number, c.Path})
		}
		if c.Source.keyed() && k.ids.empty() {
			s.table.remove(c.Source, k)
		}
	}
}

// Load activates an entity. If it returns false, the entity's record must be read first, and the
// result follows in [Effects.Loaded].
func (s *Shard) Load(now time.Time, id string) (Loaded, bool) {
	s.desk.now = now
	if s.state != Open {
		return Loaded{}, false
	}
	e := s.tail.at(id)
	e.active = true
	if !e.loaded && s.absent.sure(id) {
		e.loaded, e.listing, e.entered = true, unlisted, never
	}
	if !e.loaded || e.bare {
		s.loads.begin(s, id)
		return Loaded{}, false
	}
	if e.last.expires != 0 && e.last.gone(now) {
		s.lapse(e)
	}
	return e.loadedNow(), true
}

// lapse commits the end of an expired entity. Otherwise its state could return at a home whose
// clock is behind.
func (s *Shard) lapse(e *entity) {
	c := &wire.DurableCommit{
		Entity: wire.BytesOf(e.id), Version: e.last.number + 1, Ended: true, At: s.desk.now.UnixMilli(), Keys: uint32(len(e.last.keys)),
	}
	if index, _ := s.lastIndex(e); len(index) > 0 {
		c.Index = &wire.DurableIndex{Removed: index}
		s.catalog.moves(e, nil, index)
	}
	e.commit(c, s.group.add(&wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: c}}))
	s.catalog.note(e)
}

// Passivated undoes Load, after the driver has removed the entity from memory.
func (s *Shard) Passivated(id string) {
	e := s.tail.entities[id]
	if e == nil {
		return
	}
	e.active = false
	if (!e.dirty || e.stale) && e.saving == 0 && e.ticket <= s.group.acked {
		delete(s.tail.entities, id)
		s.catalog.forget(e)
	}
}

// Observe ends a turn that changed nothing, and returns the ticket for which the turn's answer must
// wait. leased reports whether the home's lease was valid when it was read after the call's
// arrival. With the lease, this home is the only one, so the turn has seen the committed state.
// Without the lease, an append must first prove that the home is the only one.
func (s *Shard) Observe(now time.Time, id string, leased bool) Ticket {
	s.desk.now = now
	if t := s.Seen(id); t > s.group.acked || leased || s.state != Open {
		return t
	}
	if len(s.group.pending) > 0 {
		return s.group.last // an entry that is not sent yet proves the same
	}
	e := &wire.DurableEntry{Kind: &wire.DurableEntry_Empty{Empty: &wire.DurableEmpty{}}}
	ticket := s.group.add(e)
	s.next()
	return ticket
}

// Seen returns the ticket of the entity's last commit. A call that the entity's next turn makes
// must wait for that ticket.
func (s *Shard) Seen(id string) Ticket {
	if e := s.tail.entities[id]; e != nil {
		return e.ticket
	}
	return 0
}

// Arrived records that the receiver of a tell has committed it, or refuses it as finished.
func (s *Shard) Arrived(now time.Time, t Target, number uint64) {
	s.desk.now, s.tell = now, true
	s.outbox.arrive(t, number, now)
}

// Followed sets the number of the last event that all named followers have read: the lowest of
// their [Place.Number]. Before the first call of Followed, [Journal.Followers] keeps all events.
func (s *Shard) Followed(number uint64) { s.journal.read = number }

// Checkpoint requests a checkpoint. The driver calls it before it gives the shard up.
func (s *Shard) Checkpoint(now time.Time) {
	s.desk.now = now
	s.checkpoint.wanted = true
	s.next()
}

// Relieve requests a checkpoint, unless one is under way. The driver calls it when the tails of the
// node's logs are too large.
func (s *Shard) Relieve(now time.Time) {
	if !s.checkpoint.active {
		s.Checkpoint(now)
	}
}

// TailBytes returns how many bytes of the log the next home would have to read.
func (s *Shard) TailBytes() int { return s.tail.bytes }

// Busy reports whether the shard is not open, or whether an append, a checkpoint or a verification
// is under way or requested.
func (s *Shard) Busy() bool {
	return s.state != Open || s.claim.step != stepNone || s.group.acked < s.group.last || len(s.group.queue) > 0 ||
		s.checkpoint.active || s.checkpoint.wanted || !s.verify.line.idle()
}

// Advance moves the Since position of an idle shard to a new append. The old position would keep
// the store from trimming a log that several shards share.
func (s *Shard) Advance(now time.Time) {
	s.desk.now = now
	if s.state != Open {
		return
	}
	s.advance()
	s.next()
}

func (s *Shard) advance() {
	e := &wire.DurableEntry{Kind: &wire.DurableEntry_Empty{Empty: &wire.DurableEmpty{}}}
	s.checkpoint.after = s.group.add(e)
}

func (s *Shard) next() {
	if s.state == Open && s.claim.step == stepNone {
		s.journal.look(s)
		s.checkpoint.next(s)
		s.catalog.walk.next(s)
	}
	if invariant.Enabled {
		if err := s.Check(); err != nil {
			invariant.Failf("durable shard: %v", err)
		}
	}
}

func (s *Shard) appended(r Response) {
	if !s.group.line.settled(&s.desk, r) {
		return
	}
	s.group.line.close()
	switch r.Outcome {
	case OK:
		s.acknowledged(r.Position)
	case TooLarge:
		if !s.group.uncut() {
			s.broken(refused("log", r))
		}
	default: // the log ends elsewhere: with another home's claim, or a late claim of this home
		s.claim.begin(s, false)
	}
}

func (s *Shard) acknowledged(p store.Position) {
	b := s.group.acknowledge(p)
	s.tail.ack(b)
	for _, e := range b.entries {
		s.journal.ack(e.GetCommit(), s.desk.now)
		for _, t := range s.outbox.told(e.GetDead()) {
			s.out.Events = append(s.out.Events, Event{Kind: DeadLetter, Tell: t})
		}
		s.outbox.settle(e.DurableEntry)
	}
	s.group.reuse(b.entries, &s.messages)
	s.tell = true
}

// claimed ends a claim. stands is the counter of this home's last append that counts: the log has
// lost the later ones.
func (s *Shard) claimed(c *claim, stands uint64) {
	p := c.position
	if s.state == Claiming {
		s.group.position = p
		s.tail.turn(p)
		s.state, s.tell, s.opened = Open, true, s.desk.now
		s.out.Events = append(s.out.Events, Event{Kind: Opened, Position: p})
		if s.verify.due {
			s.beginVerify()
		}
		s.readWakes(0) // so that a shard without reminders needs no look at the time
		return
	}
	if c.forked {
		c.lose(s, s.head)
		return
	}
	if c.misses(s.checkpoint.sent()) { // that head must not be written, or the next home cannot open the shard
		c.lose(s, s.head)
		return
	}
	c.since = max(c.since, s.head.stored.Since) // a checkpoint may have moved the head's Since meanwhile, and the log is trimmed
	last := c.misses(s.group.position)
	for len(s.group.queue) > 0 && s.group.queue[0].counter <= stands {
		// Not at p: a checkpoint up to p makes earlier entries superfluous.
		s.acknowledged(c.own[s.group.queue[0].counter])
	}
	lost, orphaned := s.tail.missing(stands, c.since), s.tail.orphaned(c)
	s.group.resend(lost)
	s.group.position = p
	s.out.Events = append(s.out.Events, Event{Kind: Reclaimed, Position: p})
	if len(lost) > 0 {
		s.out.Events = append(s.out.Events, Event{Kind: Resent, N: len(lost)})
	}
	if orphaned > 0 {
		s.out.Events = append(s.out.Events, Event{Kind: Orphaned, N: orphaned})
	}
	if last || len(lost)+orphaned > 0 {
		s.tail.turn(p)
		s.checkpoint.lost(s)
	}
	if orphaned > 0 || p == c.since || c.misses(s.head.stored.Since) { // a checkpoint may have moved the head's Since meanwhile
		s.advance()
	}
}

// ours reports whether this home wrote the head that was read. A head of another home ends the
// tenure, unless that head is older than this home's last one.
func (s *Shard) ours(stored store.Head) bool {
	h, err := readHead(stored)
	if err != nil {
		s.broken(err)
		return false
	}
	return !s.refuses(h) && h.mine(s.config)
}

// outgrown drops the shard, because another home has this epoch or a higher one.
func (s *Shard) outgrown(epoch uint64) { s.drop(Event{Kind: Ended, Epoch: epoch}) }

// broken drops the shard, because this process cannot open it.
func (s *Shard) broken(err error) { s.drop(Event{Kind: Ended, Err: err}) }

// Drop ends the shard's tenure, because the shard moves elsewhere or the process ends.
func (s *Shard) Drop() {
	if s.state != Dropped {
		s.drop(Event{Kind: Ended})
	}
}

func (s *Shard) drop(e Event) {
	if s.state == Dropped {
		return
	}
	s.state = Dropped
	s.desk.out = nil
	for _, l := range s.lines() {
		l.close()
	}
	s.loads = loads{asked: map[uint64]string{}, lines: map[string]*line{}}
	s.catalog, s.wakes = newCatalog(s.limits.LeafBytes), newWakes()
	s.out = Effects{Events: append(s.out.Events, e)}
}

// Check returns the first broken invariant, or nil.
func (s *Shard) Check() error {
	if s.state != Open && (s.group.last > 0 || !s.group.line.idle()) && s.state == Claiming {
		return errors.New("invariant 1: an entry or append exists before the shard is open")
	}
	if s.checkpoint.active && !s.head.mine(s.config) {
		return errors.New("invariant 2: a checkpoint is active under another home's head")
	}
	if s.state == Dropped {
		for _, l := range s.lines() {
			if !l.idle() {
				return errors.New("invariant 3: a dropped shard has a request under way")
			}
		}
		return nil
	}
	return errors.Join(s.group.check(s.state == Open), s.tail.check(), s.table.check(), s.outbox.check(), s.journal.check(), s.loads.check(), s.catalog.check(&s.tail, s.state == Open), s.wakes.check(&s.catalog, &s.tail, s.state == Open))
}

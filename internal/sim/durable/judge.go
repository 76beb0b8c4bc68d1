package durable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// judge reads the logs with its own code, and compares all heads, records and answers with them.
type judge struct {
	server *server
	// blind makes the judge check nothing, because a server has lost what the judge knows. The
	// server then also reuses positions, as if it went on after its last remaining append.
	blind  bool
	shards map[int]*truth
	// applied are the committed commands of all shards: by tellKey if they are tells, otherwise by
	// commandKey.
	applied    map[string]commit
	told       map[string]string // by tellKey, of all tells ever committed: the tenure and the command that committed it
	folded     int               // commits with events alone
	turns      map[string]turn
	skew       time.Duration                    // the largest error of a clock
	journaling durable.Journal                  // how long events are kept
	fires      map[string]*wire.DurableReminder // by fireKey
	firings    int
	duplicates int // messages that the stream has dropped
}

type turn struct {
	at           time.Time // when the turn began
	base, change int64
	fresh        bool // the turn saw no state of the account
}

func (j *judge) began(t *tenure, c durable.Command, now turn) {
	j.turns[turnKey(t.shard, t.home.incarnation, t.core.Epoch(), commandKeyOf(c))] = now
}

func turnKey(shard int, incarnation, epoch uint64, command string) string {
	return fmt.Sprintf("%d %x %d %s", shard, incarnation, epoch, command)
}

type truth struct {
	claim    *wire.DurableAppend
	head     *wire.DurableHead
	entities map[string][]commit
	tells    map[string]bool   // by tellKey; true means given up
	told     map[string]uint64 // the last tell of a log that was applied, by log and entity
	stream   map[string]uint64 // the last message that the stream has, by entity
	since    store.Position
	first    store.Position // of all appends that the log ever had
	events   []recorded     // of all commits, in order

	// promise is all commits that the shard had when a server was put back to an older state. The
	// shard's home then, promiser, still has these commits in memory. promise is nil once they are
	// written again, or if the home has died or lost the shard.
	promise  map[string][]commit
	promiser *home
	named    bool // the promiser has reported that it cannot write the commits again
	forked   bool // the log has lost the promiser's claim, and an older home has appended: the promiser must report it
	called   bool // an operator will drop the shard
	crashed  bool // a server was put back, so the comparisons after each write may fail
	listed   bool // the shard has answered a list since the last fault
	found    bool // its indexes have answered a find since the last fault
	tainted  bool // the shard has lost commits that nobody had promised to keep
}

// commit is a valid commit: no higher claim precedes it.
type commit struct {
	position  store.Position
	version   uint64
	state     []byte
	ended     bool
	ordinal   uint64 // twice the number of the entity's commits so far, over all its lives
	expires   int64
	form      uint32
	at        time.Time // when the store applied it
	key       string    // of its command in judge.applied; "" means none
	reminders *wire.DurableReminders
}

// gone reports whether, after c, the entity has ended, or has expired by the clock of any home.
func (j *judge) gone(c commit) bool { return c.gone(j.server.w.clock().Add(j.skew)) }

// surelyGone reports whether, after c, the entity has ended, or has expired by the clocks of all
// homes.
func (j *judge) surelyGone(c commit) bool { return c.gone(j.server.w.clock().Add(-j.skew)) }

func (c commit) gone(at time.Time) bool {
	return c.ordinal == 0 || c.ended || c.expires != 0 && at.UnixMilli() >= c.expires
}

// balance returns the balance that callers get after the commit.
func (c commit) balance() int64 {
	if c.ended {
		return 0
	}
	return balanceOf(c.state) - shift(c.form)
}

type recorded struct {
	entity  string
	version uint64
	event   []byte
	at      int64 // by the clock of its home
}

// is reports whether r holds the state after the commit.
func (c commit) is(r *wire.DurableRecord) bool {
	if c.form != r.GetForm() || !proto.Equal(c.reminders, r.GetReminders()) && len(c.reminders.GetAll())+len(r.GetReminders().GetAll()) > 0 {
		return false
	}
	if len(r.GetSince()) == 0 && bytes.Equal(c.state, r.GetState()) {
		return true
	}
	return balanceOf(c.state) == fold(r.GetState(), r.GetSince())
}

func newJudge(s *server) *judge {
	j := &judge{server: s, shards: map[int]*truth{}, applied: map[string]commit{}, told: map[string]string{}, turns: map[string]turn{}, fires: map[string]*wire.DurableReminder{}}
	for i := range s.shards {
		j.shards[i] = &truth{entities: map[string][]commit{}, tells: map[string]bool{}, told: map[string]uint64{}, stream: map[string]uint64{}}
	}
	s.judge = j
	return j
}

// decode decodes a message. It does not use the core's code.
func decode(b []byte, m proto.Message) error {
	if len(b) < 5 {
		return fmt.Errorf("decode a message: got %d bytes, want at least 5", len(b))
	}
	return proto.Unmarshal(b, m)
}

func describe(b []byte) string {
	a := &wire.DurableAppend{}
	if err := decode(b, a); err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("epoch %d of %x, claim %d, counter %d:", a.GetEpoch(), a.GetIncarnation()&0xffff, a.GetClaim(), a.GetCounter())
	for _, e := range a.GetEntries() {
		c := e.GetCommit()
		switch {
		case c != nil:
			text += fmt.Sprintf(" %s v%d by %s;", c.GetEntity(), c.GetVersion(), commandKey(c.GetCommand()))
		case e.GetClaim() != nil:
			text += " claim"
		default:
			text += " " + strings.TrimPrefix(fmt.Sprintf("%T", e.GetKind()), "*wire.DurableEntry_")
		}
	}
	return text
}

func commandKey(c *wire.DurableCommand) string {
	s := c.GetSource()
	return fmt.Sprintf("%x/%s%d:%d.%x", s.GetIncarnation(), s.GetLog(), s.GetShard(), c.GetNumber(), c.GetPath())
}

func commandKeyOf(c durable.Command) string {
	return commandKey(&wire.DurableCommand{
		Source: &wire.DurableSource{Incarnation: c.Source.Incarnation, Log: c.Source.Log, Shard: c.Source.Shard}, Number: c.Number, Path: []byte(c.Path),
	})
}

func tellKey(from int, to uint32, number uint64) string {
	return fmt.Sprintf("%d>%d:%d", from, to, number)
}

func (j *judge) append(shard int, p store.Position, b []byte) error {
	if j.blind {
		return nil
	}
	a := &wire.DurableAppend{}
	if err := decode(b, a); err != nil {
		return err
	}
	t := j.shards[shard]
	if t.first == 0 {
		t.first = p
	}
	if len(a.GetEntries()) == 1 && a.GetEntries()[0].GetClaim() != nil {
		c := t.claim
		if c == nil || a.GetEpoch() > c.GetEpoch() || a.GetEpoch() == c.GetEpoch() && a.GetIncarnation() == c.GetIncarnation() && a.GetClaim() > c.GetClaim() {
			t.claim = a
		}
		return nil
	}
	j.listTells(shard, a) // also of an append that is not judged: the next home may read it
	if c := t.claim; c == nil || c.GetEpoch() != a.GetEpoch() || c.GetIncarnation() != a.GetIncarnation() || c.GetClaim() != a.GetClaim() {
		if t.tainted {
			return nil
		}
		return fmt.Errorf("invariant 1: append under epoch %d, claim %d, but the highest claim is %[4]d of epoch %[3]d",
			a.GetEpoch(), a.GetClaim(), c.GetEpoch(), c.GetClaim())
	}
	if t.promiser != nil {
		if h := t.promiser.tenures[shard]; h != nil && h.core.State() == durable.Open && a.GetEpoch() < h.core.Epoch() {
			t.forked, t.tainted = true, true
			return nil
		}
	}
	for _, e := range a.GetEntries() {
		if c := e.GetCommit(); c != nil {
			if err := j.commit(shard, p, c, turnKey(shard, a.GetIncarnation(), a.GetEpoch(), commandKey(c.GetCommand()))); err != nil {
				return err
			}
		}
	}
	return nil
}

// listTells notes which tells may leave, and which are given up, according to an append.
func (j *judge) listTells(shard int, a *wire.DurableAppend) {
	tells := j.shards[shard].tells
	for _, e := range a.GetEntries() {
		for _, t := range e.GetCommit().GetTells() {
			if key := tellKey(shard, targetOf(t.GetLog(), t.GetShard()), t.GetNumber()); !tells[key] { // else an earlier commit with it was lost
				tells[key] = false
			}
		}
		for _, n := range e.GetDead().GetTells() {
			for _, number := range n.GetNumbers() {
				tells[tellKey(shard, targetOf(n.GetLog(), n.GetShard()), number)] = true
			}
		}
	}
}

func (j *judge) commit(shard int, p store.Position, c *wire.DurableCommit, turn string) error {
	t := j.shards[shard]
	id := string(c.GetEntity())
	for _, tell := range c.GetTells() {
		key := tellKey(shard, targetOf(tell.GetLog(), tell.GetShard()), tell.GetNumber())
		if was, twice := j.told[key]; twice && was != turn {
			return fmt.Errorf("invariant 10: %s: tell %s was committed by turn %s, and now by turn %s", id, key, was, turn)
		}
		j.told[key] = turn
	}
	if key := j.keyOf(shard, c); t.crashed {
		if i := slices.IndexFunc(t.entities[id], func(was commit) bool {
			return was.version == c.GetVersion() && was.key == key && key != ""
		}); i >= 0 { // a record has this commit already, and the log gets it again
			t.entities[id] = slices.Clone(t.entities[id])
			t.entities[id][i].position = p
			return nil
		}
	}
	t.restore(j, id, c.GetVersion()-1)
	before := commit{}
	if all := t.entities[id]; len(all) > 0 {
		before = all[len(all)-1]
	}
	if again := j.gone(before) && c.GetVersion() == 1; c.GetVersion() != before.version+1 && !again && !t.tainted {
		return fmt.Errorf("invariant 3: %s: version %d is committed after version %d", id, c.GetVersion(), before.version)
	}
	now := commit{p, c.GetVersion(), c.GetState(), c.GetEnded(), 2 * uint64(len(t.entities[id])+1), c.GetExpires(), c.GetForm(), j.server.w.clock(), "", j.remindersOf(before, c)}
	if c.GetFolded() {
		j.folded++
		now.state = binary.AppendVarint(nil, fold(before.state, c.GetEvents()))
	}
	if turn, noted := j.turns[turn]; noted && !t.tainted {
		if err := j.follows(before, now, turn); err != nil {
			return fmt.Errorf("%s v%d: %w", id, c.GetVersion(), err)
		}
	}
	for i, e := range c.GetEvents() {
		t.events = append(t.events, recorded{id, c.GetVersion(), e, c.GetAt()})
		if number := c.GetEvent() + uint64(i); number != uint64(len(t.events)) && !t.crashed {
			return fmt.Errorf("invariant 7: event %d of the log has number %d", len(t.events), number)
		}
	}
	now.key = j.keyOf(shard, c)
	t.entities[id] = append(t.entities[id], now)
	if c.GetCommand() == nil && !c.GetEnded() {
		return j.fired(t, before, c, turn)
	}
	if c.GetCommand() == nil { // a commit that records that the entity has expired
		if !c.GetEnded() || !j.gone(before) {
			return fmt.Errorf("invariant 8: %s v%d has no command, but ends an entity that has not expired", id, c.GetVersion())
		}
		return nil
	}
	key := now.key
	if c.GetCommand().GetSource().GetIncarnation() == 0 {
		from, number := c.GetCommand().GetSource().GetShard(), c.GetCommand().GetNumber()
		row := fmt.Sprintf("%d>%s", from, id)
		dead := j.shards[int(from)].tells[key] // a tell that was given up: a copy under way may still run
		if last := t.told[row]; number < last && !dead && !t.tainted && !j.shards[int(from)].tainted {
			return fmt.Errorf("order of tells: %s: tell %d of shard %d is applied after tell %d", id, number, from, last)
		}
		t.told[row] = max(t.told[row], number)
	}
	if was, twice := j.applied[key]; twice && !t.tainted {
		return fmt.Errorf("invariant 3: %s: command %s was applied at position %d, and again at %d", id, key, was.position, p)
	}
	j.applied[key] = now
	return nil
}

// follows checks invariants 8 and 9 for two successive commits of an entity. t is the later turn.
func (j *judge) follows(before, now commit, t turn) error {
	gone := before.gone(t.at)
	switch {
	case gone && !t.fresh:
		return fmt.Errorf("invariant 8: the turn at %v saw balance %d, but the entity had expired or ended", t.at, t.base)
	case t.fresh && j.gone(before): // the clock of the home may be ahead
		gone = true
	case !gone && (t.fresh || t.base != before.balance()):
		return fmt.Errorf("invariant 8: the turn at %v saw balance %d (fresh: %v), but the log had balance %d", t.at, t.base, t.fresh, before.balance())
	case !now.ended && now.balance() != t.base+t.change:
		return fmt.Errorf("invariant 8: balance %d, want the sum of %d and %d", now.balance(), t.base, t.change)
	case !gone && !now.ended && before.form > now.form:
		return fmt.Errorf("invariant 9: a state of version %d replaces a state of version %d", now.form, before.form)
	}
	return nil
}

func (j *judge) head(shard int, h store.Head) error {
	if j.blind {
		return nil
	}
	t := j.shards[shard]
	if h.Since < t.since && !t.crashed {
		return fmt.Errorf("invariant 2: the head's Since falls from %d to %d", t.since, h.Since)
	}
	t.since = h.Since
	now := &wire.DurableHead{}
	if err := decode(h.Value, now); err != nil {
		return err
	}
	if was := t.head; was != nil && !t.tainted && (now.GetEpoch() < was.GetEpoch() || now.GetEpoch() == was.GetEpoch() && now.GetIncarnation() != was.GetIncarnation()) {
		return fmt.Errorf("invariant 1: head of epoch %d, home %x, follows one of epoch %d, home %x",
			now.GetEpoch(), now.GetIncarnation(), was.GetEpoch(), was.GetIncarnation())
	}
	t.head = now
	for _, id := range sortedKeys(t.promise) {
		r, all, left := &wire.DurableRecord{}, t.promise[id], t.entities[id]
		switch rec := j.server.record(shard, "e"+id); {
		case len(left) > 0 && left[len(left)-1].position > h.Since: // the log still has its commits, which hide the record
		case rec.Revision != store.None && decode(rec.Value, r) == nil:
			t.restore(j, id, r.GetVersion())
		case rec.Revision == store.None && len(all) > 0 && all[len(all)-1].ended: // an ended entity has no record
			t.restore(j, id, all[len(all)-1].version)
		}
	}
	return j.recoverable(shard)
}

func (j *judge) put(incarnation uint64, shard int, changes []store.Change) error {
	if j.blind {
		return nil
	}
	h := &wire.DurableHead{}
	if err := decode(j.server.head(shard).Value, h); err != nil {
		return err
	}
	if h.GetIncarnation() != incarnation {
		return fmt.Errorf("invariant 5: home %x writes records, but home %x wrote the head", incarnation, h.GetIncarnation())
	}
	for _, c := range changes {
		if len(c.Value) == 0 && c.ID[0] == 'j' {
			if err := j.deleted(shard, j.server.record(shard, c.ID).Value); err != nil {
				return err
			}
		}
		if c.ID[0] != 'e' {
			continue
		}
		t := j.shards[shard]
		all := append(slices.Clone(t.entities[c.ID[1:]]), t.promise[c.ID[1:]]...)
		if t.tainted {
			continue
		}
		if len(c.Value) == 0 {
			if !slices.ContainsFunc(all, j.gone) {
				return fmt.Errorf("invariant 3: the record of %s is deleted, but the entity has not ended or expired", c.ID[1:])
			}
			continue
		}
		r := &wire.DurableRecord{}
		if err := decode(c.Value, r); err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(x commit) bool {
			return x.version == r.GetVersion() && (r.GetEnded() && j.gone(x) || x.is(r))
		}) {
			return fmt.Errorf("invariant 3: the record of %s has a state of version %d that was not committed", c.ID[1:], r.GetVersion())
		}
		if err := j.indexed(r); err != nil {
			return err
		}
	}
	return nil
}

// deleted checks that the journal's settings allow the deletion of every event in a deleted chunk.
func (j *judge) deleted(shard int, value []byte) error {
	chunk, keep := &wire.DurableChunk{}, j.journaling
	if len(value) == 0 || j.shards[shard].crashed {
		return nil // the chunk was deleted before
	}
	if err := decode(value, chunk); err != nil {
		return err
	}
	all := uint64(len(j.shards[shard].events))
	for _, e := range chunk.GetEvents() {
		age := j.server.w.clock().Sub(time.UnixMilli(e.GetAt()))
		switch {
		case keep.Age == 0 && keep.Events == 0 && !keep.Followers:
			return fmt.Errorf("invariant 7: event %d is deleted, but the journal keeps all events", e.GetNumber())
		// A chunk's age is that of its last event, which another home may have stamped. Each
		// stamp, and the clock read now, differs from the true time by skew at most.
		case keep.Age > 0 && age < keep.Age-3*j.skew-time.Millisecond:
			return fmt.Errorf("invariant 7: event %d is deleted %v after its commit, but the journal keeps events for %v", e.GetNumber(), age, keep.Age)
		case keep.Events > 0 && all-e.GetNumber() < keep.Events:
			return fmt.Errorf("invariant 7: event %d of %d is deleted, but the journal keeps the last %d", e.GetNumber(), all, keep.Events)
		}
	}
	return nil
}

// recoverable checks invariant 2, unless the server was put back to an earlier state.
func (j *judge) recoverable(shard int) error {
	if j.blind || j.shards[shard].crashed {
		return nil
	}
	return j.has(shard)
}

// has checks invariant 2, even if the server was put back.
func (j *judge) has(shard int) error {
	t := j.shards[shard]
	since := j.server.head(shard).Since
	if begun := t.first > 0 && (since > 0 || !t.crashed); begun && !j.server.whole(shard, max(since, t.first)) {
		return fmt.Errorf("invariant 2: the log begins after position %d, from which the head needs the log", since)
	}
	for _, id := range slices.Sorted(maps.Keys(t.entities)) {
		all := t.entities[id]
		last := all[len(all)-1]
		if last.position > since {
			continue
		}
		r := &wire.DurableRecord{}
		rec := j.server.record(shard, "e"+id)
		if rec.Revision == store.None && j.gone(last) {
			continue
		}
		if rec.Revision == store.None {
			return fmt.Errorf("invariant 2: %s v%d at position %d is before since %d, but has no record", id, last.version, last.position, since)
		}
		if err := decode(rec.Value, r); err != nil {
			return err
		}
		if r.GetVersion() != last.version || !r.GetEnded() && (last.ended || !last.is(r)) || r.GetEnded() && !j.gone(last) {
			return fmt.Errorf("invariant 2: %s v%d at position %d is before since %d, but its record has v%d", id, last.version, last.position, since, r.GetVersion())
		}
	}
	return nil
}

// ordinal checks invariants 4 and 8 for r, an answer that leaves a home. It returns the ordinal of
// the state that the answer saw. The ordinal is twice the number of the entity's commits up to that
// state, counted over all lives of the entity, plus one if the entity had expired.
func (j *judge) ordinal(shard int, id string, r result) (uint64, error) {
	t := j.shards[shard]
	if t.tainted {
		return 0, nil
	}
	all := t.entities[id]
	if p := t.promise[id]; len(p) > len(all) { // the home has these commits in memory
		all = append(slices.Clone(all), p...)
	} else {
		all = append(slices.Clone(p), all...)
	}
	if r.fresh {
		return j.nothing(all, id, r)
	}
	for i := len(all) - 1; i >= 0; i-- {
		c := all[i]
		if c.version != r.version || c.balance() != r.balance {
			continue
		}
		if !r.at.IsZero() && c.gone(r.at) {
			return 0, fmt.Errorf("invariant 8: an answer that saw %s v%d at %v leaves its home, although the entity had expired or ended", id, r.version, r.at)
		}
		return c.ordinal, nil
	}
	if r.version > 0 {
		return 0, fmt.Errorf("invariant 4: an answer that saw %s v%d with balance %d leaves its home, but none of the log's %d commits has this version and balance", id, r.version, r.balance, len(all))
	}
	return 0, nil
}

// nothing is [judge.ordinal] for turns that saw no state.
func (j *judge) nothing(all []commit, id string, r result) (uint64, error) {
	if r.version == 0 && len(all) > 0 && !r.real.IsZero() && all[0].at.After(r.real) {
		return 0, nil
	}
	for _, c := range slices.Backward(all) {
		switch {
		case r.version > 0 && c.version > r.version: // this commit came after the turn
		case c.ended:
			return c.ordinal, nil
		case c.gone(r.at), c.at.Before(r.real) && c.gone(r.real.Add(j.skew)):
			return c.ordinal + 1, nil
		}
	}
	if len(all) > 0 && !r.at.IsZero() && all[0].at.Before(r.real) {
		return 0, fmt.Errorf("invariant 8: an answer that saw no state of %s at %v leaves its home, but the entity lives", id, r.at)
	}
	return 0, nil
}

// checkHistory returns an error if the answers for one account show that its operations did not run
// one after another. If a call began after an answer, a read must see the version of that answer or
// a later one, and a write a later one. No two writes may have the same version, and all answers
// with one version must have the same balance.
func checkHistory(all []Operation) error {
	of := map[string][]Operation{}
	for _, op := range all {
		if op.Answered && !op.Failed {
			of[op.Account] = append(of[op.Account], op)
		}
	}
	for _, id := range sortedKeys(of) {
		ops := of[id]
		balances := map[uint64]int64{}
		wrote := map[uint64]bool{}
		for _, op := range ops {
			if b, known := balances[op.Version]; known && b != op.Balance {
				return fmt.Errorf("linearizability: %s v%d was seen with balances %d and %d", id, op.Version, b, op.Balance)
			}
			balances[op.Version] = op.Balance
			if !op.Read {
				if wrote[op.Version] {
					return fmt.Errorf("linearizability: two writes of %s were answered with v%d", id, op.Version)
				}
				wrote[op.Version] = true
			}
		}
		byCall := slices.SortedFunc(slices.Values(ops), func(a, b Operation) int { return cmp.Compare(a.Call, b.Call) })
		byReturn := slices.SortedFunc(slices.Values(ops), func(a, b Operation) int { return cmp.Compare(a.Return, b.Return) })
		seen, next := uint64(0), 0 // the highest version that answered calls have seen
		for _, op := range byCall {
			for ; next < len(byReturn) && byReturn[next].Return < op.Call; next++ {
				seen = max(seen, byReturn[next].Version)
			}
			if op.Version < seen || !op.Read && op.Version == seen {
				return fmt.Errorf("linearizability: %s: an answer at %v saw v%d, though v%d had been seen at %v before it was called",
					id, op.Return, op.Version, seen, op.Call)
			}
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

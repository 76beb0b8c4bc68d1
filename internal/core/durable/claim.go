package durable

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

type step uint8

const (
	stepNone   step = iota
	stepHead        // the head is read
	stepSet         // the head is written
	stepAppend      // the claim is appended
	stepRead        // the log is read up to the claim
	stepTable       // the table is read; not when the shard claims again
	stepBases       // the records are read of those entities whose first commit in the log needs older commits
	stepLose        // the head in the store is replaced, because a later one was lost
)

// claim is an append to the log, after which only this home's appends count. A full claim begins a
// tenure. A claim that is not full follows a conflict within the tenure. A delayed copy of a claim
// has a lower number and is ignored.
type claim struct {
	step   step
	full   bool
	number uint64
	gone   int            // how often in a row the log lacked a part that the claim needs
	base   uint64         // the value of number before this claim
	since  store.Position // from where the log is read
	line   line
	write  headWrite
	mend   head // the head that stepLose writes
	forked bool // another home has appended changes unknown to this one, or claimed under the same epoch

	position store.Position
	log      []store.Append // the appends read, until the table is read
	mixed    bool           // the log has appends of homes that keep other indexes
	chain    chain
	own      map[uint64]store.Position // the positions of this tenure's appends that count, by counter
	has      map[store.Position]bool   // the positions of the appends before this claim
}

func (c *claim) begin(s *Shard, full bool) {
	c.full, c.base = full, c.number
	c.step = stepHead
	c.line.ask(&s.desk, Request{Op: OpHead})
}

func (c *claim) done(s *Shard, r Response) {
	switch c.step {
	case stepHead:
		if c.line.settled(&s.desk, r) {
			c.haveHead(s, r)
		}
	case stepAppend:
		c.appended(s, r)
	case stepRead:
		if c.line.settled(&s.desk, r) {
			c.read(s, r)
		}
	case stepTable:
		if c.line.settled(&s.desk, r) {
			c.haveTable(s, r)
		}
	case stepBases:
		if c.line.settled(&s.desk, r) {
			c.haveBases(s, r)
		}
	case stepLose:
		if c.line.settled(&s.desk, r) {
			c.loses(s, r)
		}
	default:
	}
}

// haveHead tolerates a stale head: a full claim fails to replace it by compare-and-set, and a claim
// that is not full finds newer claims in the log.
func (c *claim) haveHead(s *Shard, r Response) {
	h, err := readHead(r.Head)
	switch {
	case err != nil:
		s.broken(err)
	case c.climbs(s) && h.value.GetLost() == nil && !s.Mark().above(h):
		c.climb(s, h)
	case s.refuses(h):
	case c.full:
		c.replace(s, h)
	default:
		c.since = s.head.stored.Since
		if h.mine(s.config) { // a checkpoint may have written it without an answer yet
			c.since = max(c.since, h.stored.Since)
			if h.value.GetWrite() > max(s.head.value.GetWrite(), s.checkpoint.number()) { // lose wrote it, with an uncertain outcome
				c.again(s, h)
				return
			}
		}
		c.append(s)
	}
}

// climbs reports whether the claim may still take a higher epoch. After its first append that
// would be unsafe.
func (c *claim) climbs(s *Shard) bool { return s.config.Above && c.full && c.number == 0 }

// climb writes the head under an epoch above h's. h may come from an earlier write of this claim
// with an uncertain outcome.
func (c *claim) climb(s *Shard, h head) {
	s.config.Epoch = max(s.config.Epoch, h.value.GetEpoch()+1)
	c.replace(s, h)
}

func (c *claim) replace(s *Shard, h head) {
	c.step = stepSet
	c.write.begin(&s.desk, h.replace(s.config, h.stored.Since, h.value.GetGeneration(), h.value.GetParts()), h)
}

func (c *claim) headDone(s *Shard, r Response) {
	written, other, err := c.write.done(&s.desk, s, r)
	switch {
	case err != nil:
		s.broken(err)
	case other != nil && c.climbs(s) && other.value.GetLost() == nil && !s.Mark().above(*other):
		c.climb(s, *other)
	case other != nil:
		s.refuses(*other)
	case written != nil:
		s.head = *written
		s.base = c.write.base
		s.absent.fresh = c.write.over == store.None
		s.catalog.whole = s.head.value.GetGeneration() == 0 && c.write.want.stored.Since == store.Start // the log has all commits
		s.catalog.indexed = s.catalog.whole
		c.since = s.head.stored.Since
		c.append(s)
	}
}

// append appends the claim under a new number, so a second copy of an earlier attempt is void.
func (c *claim) append(s *Shard) {
	c.step = stepAppend
	c.number++
	c.line.ask(&s.desk, Request{Op: OpAppend, Expect: store.Any, Data: seal(&wire.DurableAppend{
		Format: formatNow, Epoch: s.config.Epoch, Incarnation: s.config.Incarnation, Claim: c.number,
		Entries: []*wire.DurableEntry{{Kind: &wire.DurableEntry_Claim{Claim: &wire.DurableClaim{Node: s.config.Node, Indexes: s.config.Index.fields()}}}},
	})})
}

func (c *claim) appended(s *Shard, r Response) {
	switch r.Outcome {
	case OK:
		c.position = r.Position
		c.step = stepRead
		c.line.ask(&s.desk, c.readLog())
	default:
		c.line.again(&s.desk)
	}
}

func (c *claim) readLog() Request {
	return Request{Op: OpRead, From: c.since, To: c.position}
}

func (c *claim) read(s *Shard, r Response) {
	if r.Outcome == Gone {
		c.retry(s, fmt.Sprintf("a part is missing between position %d, where the head needs the log to begin, and the claim at position %d", c.since, c.position))
		return
	}
	c.forked = false
	c.chain, c.own, c.has = chain{}, map[uint64]store.Position{}, map[store.Position]bool{}
	lacks, reached := "", false
	for i, a := range r.Appends {
		w, err := readAppend(a.Data)
		if err != nil {
			s.broken(fmt.Errorf("log at %d: %w", a.Position, err))
			return
		}
		if i == 0 && c.full {
			lacks = s.head.lacks(a.Position, w)
		}
		c.has[a.Position] = claimOf(w) == nil || w.GetEpoch() != s.config.Epoch || w.GetClaim() <= c.base
		counts := c.chain.add(w)
		reached = reached || counts && s.head.reachedBy(w)
		switch {
		case !counts:
		case w.GetEpoch() == s.config.Epoch:
			c.own[w.GetCounter()] = a.Position
		case !c.full && claimOf(w) == nil && len(w.GetEntries()) > 0 && a.Position > s.head.stored.Since:
			c.forked = c.forked || s.tail.unknown(w)
		}
	}
	switch equal := c.chain.epoch == s.config.Epoch && c.chain.incarnation != s.config.Incarnation; {
	case equal && s.state == Open:
		c.forked = true // the store has lost the head of one of two homes with this epoch
		c.lose(s, s.head)
		return
	case equal, c.chain.epoch > s.config.Epoch:
		s.outgrown(c.chain.epoch) // if the log lacks anything, the other home has trimmed it
		return
	}
	if lacks != "" && c.since == store.Start { // even a lagging replica has the beginning
		s.broken(fmt.Errorf("log: %w: %s", errLost, lacks))
		return
	}
	if lacks != "" {
		c.retry(s, lacks)
		return
	}
	if c.chain.claim != c.number || c.chain.incarnation != s.config.Incarnation {
		c.retry(s, fmt.Sprintf("it lacks the claim at position %d", c.position))
		return
	}
	if lacks = s.head.ends(reached); lacks != "" && c.full {
		c.retry(s, lacks)
		return
	}
	c.gone = 0
	if !c.full {
		c.finish(s)
		return
	}
	c.log = r.Appends
	ids := tableKeys(s.head.value.GetGeneration(), s.head.value.GetParts())
	if s.journal.config.On {
		ids = append(ids, journalKey)
	}
	c.step = stepTable // also without a table: the answer shows whether another home has replaced the head
	c.line.ask(&s.desk, Request{Op: OpGet, AtLeast: s.head.stored.Revision, IDs: ids})
}

// goneTries is how many times in a row a claim finds a part of the log missing before it gives up:
// see retry. Fewer misses may come from a lagging replica of the store.
const goneTries = 5

// retry begins the claim again, because the log lacks a part that the claim needs. The parameter
// lacks describes that part. If the log ends before the head's Since position, the part is
// certainly lost, and the shard cannot open. Otherwise retry gives up when the claim has failed in
// this way goneTries times in a row. A full claim then reports the part as lost too. A claim that
// is not full drops the shard, because the head that it read was probably stale.
func (c *claim) retry(s *Shard, lacks string) {
	c.gone++
	switch {
	case c.position < c.since:
		s.broken(endsBefore(c.since, c.position))
	case c.gone == goneTries && c.full:
		s.broken(fmt.Errorf("log: %w: %s", errLost, lacks))
	case c.gone == goneTries:
		s.outgrown(s.config.Epoch)
	default:
		c.step = stepHead
		c.line.tries = c.gone - 1
		c.line.later(&s.desk, Request{Op: OpHead})
	}
}

func endsBefore(since, last store.Position) error {
	return fmt.Errorf("log: %w: the log ends at position %d, but the head needs appends from position %d on", errLost, last, since)
}

var errLost = errors.New("the store has lost a part of the log (restore a backup, or stop the nodes that host the type and use shardctl store repair TYPE -shard N: -from restores an export, -drop accepts the loss)")

func (c *claim) haveTable(s *Shard, r Response) {
	if !s.ours(r.Head) {
		if s.state != Dropped && c.step == stepTable {
			c.line.again(&s.desk) // the head that was read is stale
		}
		return
	}
	var parts []*wire.DurableTable
	records := r.Records[:s.head.value.GetParts()]
	for _, index := range r.Records[len(records):] {
		if err := s.journal.recover(index); err != nil {
			s.broken(err)
			return
		}
	}
	for i, rec := range records {
		t := &wire.DurableTable{}
		if rec.Revision == store.None {
			s.broken(fmt.Errorf("table, part %d: %w: the record is missing", i, ErrCorrupt))
			return
		}
		if err := unseal(rec.Value, t); err != nil {
			s.broken(fmt.Errorf("table, part %d: %w", i, err))
			return
		}
		if t.GetGeneration() != s.head.value.GetGeneration() || int(t.GetPart()) != i {
			s.broken(fmt.Errorf("table, part %d: %w: the record has part %d of generation %d", i, ErrCorrupt, t.GetPart(), t.GetGeneration()))
			return
		}
		parts = append(parts, t)
	}
	c.recover(s, parts)
}

// misses reports whether the log, as this claim read it, lacks the append that was at position p.
func (c *claim) misses(p store.Position) bool {
	return p != store.Start && (p >= c.position || p >= c.since && !c.has[p])
}

func (c *claim) recover(s *Shard, parts []*wire.DurableTable) {
	fields := s.config.Index.fields()
	for _, t := range parts {
		if err := s.table.recover(t, s.desk.now); err != nil {
			s.broken(fmt.Errorf("table, part %d: %w", t.GetPart(), err))
			return
		}
		s.outbox.recover(t, s.desk.now)
		s.catalog.recover(t, fields)
		s.wakes.recover(t)
	}
	var counting chain
	keeps := "" // the indexes that the home of the next append keeps
	if len(parts) > 0 {
		keeps = parts[0].GetIndexes()
	}
	for _, a := range c.log {
		w, err := readAppend(a.Data)
		if err != nil || !counting.add(w) {
			continue // this part was read before
		}
		if claim := claimOf(w); claim != nil {
			keeps = claim.GetIndexes()
		}
		if a.Position == s.head.stored.Since {
			// The commits of this append are in records, and some of these may have been deleted
			// since.
			w.Entries = nil
		}
		if len(w.GetEntries()) > 0 && claimOf(w) == nil && keeps != fields {
			c.mixed = true
		}
		s.tail.recover(w, a.Position, len(a.Data))
		for _, e := range w.GetEntries() {
			if commit := e.GetCommit(); commit != nil && commit.GetCommand() != nil {
				s.table.replay(commit.GetCommand(), 0, s.desk.now)
			}
			if x := e.GetCommit().GetIndex(); x != nil {
				s.catalog.moves(s.tail.entities[string(e.GetCommit().GetEntity())], x.GetKeys(), x.GetRemoved())
			}
			s.journal.ack(e.GetCommit(), s.desk.now)
			s.outbox.replay(e, s.desk.now)
		}
	}
	c.log = nil
	if err := s.journal.check(); err != nil {
		s.broken(fmt.Errorf("%w: %w", errLost, err))
		return
	}
	c.bases(s)
}

// basesAtOnce bounds the records that bases reads in one request.
const basesAtOnce = 32

// bases reads the records of entities whose first commit in the log needs older commits. There are
// at most as many such entities as had unacknowledged commits when the last checkpoint began.
func (c *claim) bases(s *Shard) {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(s.tail.entities)) {
		if len(s.tail.entities[id].loose) > 0 && len(ids) < basesAtOnce {
			ids = append(ids, entityKey(id))
		}
	}
	if len(ids) == 0 {
		s.catalog.recovered(&s.tail)
		if c.mixed {
			s.catalog.forgetIndexes(&s.tail)
		}
		s.wakes.recovered(&s.tail)
		c.finish(s)
		return
	}
	c.step = stepBases
	c.line.ask(&s.desk, Request{Op: OpGet, AtLeast: s.head.stored.Revision, IDs: ids})
}

func (c *claim) haveBases(s *Shard, r Response) {
	if r.Outcome != OK || !s.ours(r.Head) {
		if s.state != Dropped && c.step == stepBases {
			c.line.again(&s.desk) // the head that was read is stale
		}
		return
	}
	for i, key := range c.line.request.IDs {
		id := key[len(entityKey("")):]
		v, err := readRecord(id, r.Records[i], s.config.Index.fields())
		if err == nil {
			s.readIndex(s.tail.entities[id], &v)
			err = s.tail.entities[id].base(v)
		}
		if err != nil {
			s.broken(fmt.Errorf("entity %q: %w", id, err))
			return
		}
	}
	c.bases(s)
}

func (c *claim) finish(s *Shard) {
	c.step = stepNone
	c.line.close()
	stands := uint64(0)
	if c.chain.epoch == s.config.Epoch {
		stands = c.chain.counter
	}
	s.claimed(c, stands)
	c.own, c.has = nil, nil
}

// chain decides which appends of a log count. An append counts if it belongs to the highest of the
// claims before it in the log, and does not repeat an append that counted. The highest claim is the
// one with the highest epoch and, within an epoch, with the highest number. The first append that
// is read always counts, because reading begins at the log's start or at an append that counted.
type chain struct {
	known       bool
	epoch       uint64
	incarnation uint64
	claim       uint64
	counter     uint64 // of the home's last append that counted
}

// add takes the next append that was read, and reports whether it counts.
func (c *chain) add(a *wire.DurableAppend) bool {
	if claimOf(a) != nil {
		return c.addClaim(a)
	}
	if !c.known {
		*c = chain{true, a.GetEpoch(), a.GetIncarnation(), a.GetClaim(), a.GetCounter()}
		return true
	}
	if a.GetEpoch() != c.epoch || a.GetIncarnation() != c.incarnation || a.GetClaim() != c.claim || a.GetCounter() <= c.counter {
		return false
	}
	c.counter = a.GetCounter()
	return true
}

func (c *chain) addClaim(a *wire.DurableAppend) bool {
	same := c.known && a.GetEpoch() == c.epoch && a.GetIncarnation() == c.incarnation
	if c.known && a.GetEpoch() <= c.epoch && (!same || a.GetClaim() <= c.claim) {
		return false // void
	}
	counter := c.counter
	if !same {
		counter = 0
	}
	*c = chain{true, a.GetEpoch(), a.GetIncarnation(), a.GetClaim(), counter}
	return true
}

func (c *chain) String() string {
	return fmt.Sprintf("epoch %d, incarnation %x, claim %d, counter %d", c.epoch, c.incarnation, c.claim, c.counter)
}

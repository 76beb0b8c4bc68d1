package durable

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// A judge knows the truth, and compares. It reads the log by its own rules.
type judge struct {
	server *server
	shards map[int]*truth
	// applied are the commands of all shards that were committed, by commandKey.
	applied map[string]commit
	folded  int // commits with events alone
}

// truth is the content of a shard's log.
type truth struct {
	claim    *wire.DurableAppend
	head     *wire.DurableHead
	entities map[string][]commit
	tells    map[string]bool   // by tellKey; true: given up
	told     map[string]uint64 // the last tell of a log that was applied, by log and entity
	since    store.Position
	first    store.Position // of the log's appends that were ever there
	events   []recorded     // of all commits, in order
}

// A commit is one that counts.
type commit struct {
	position store.Position
	version  uint64
	state    []byte
	ended    bool
	ordinal  uint64 // how many commits the entity has had, over all its lives
	expires  int64
}

// gone reports whether an entity ended with that commit, or has expired since.
func (j *judge) gone(c commit) bool {
	return c.ended || c.expires != 0 && j.server.w.clock().UnixMilli() >= c.expires
}

func newJudge(s *server) *judge {
	j := &judge{server: s, shards: map[int]*truth{}, applied: map[string]commit{}}
	for i := range s.shards {
		j.shards[i] = &truth{entities: map[string][]commit{}, tells: map[string]bool{}, told: map[string]uint64{}}
	}
	s.judge = j
	return j
}

// decode reads a message without the core's help.
func decode(b []byte, m proto.Message) error {
	if len(b) < 5 {
		return fmt.Errorf("%d bytes", len(b))
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

// append judges an append that the store has applied.
func (j *judge) append(shard int, p store.Position, b []byte) error {
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
	if c := t.claim; c == nil || c.GetEpoch() != a.GetEpoch() || c.GetIncarnation() != a.GetIncarnation() || c.GetClaim() != a.GetClaim() {
		return fmt.Errorf("invariant 1: an append under epoch %d, claim %d, the highest claim is of epoch %d, %d",
			a.GetEpoch(), a.GetClaim(), c.GetEpoch(), c.GetClaim())
	}
	for _, e := range a.GetEntries() {
		if c := e.GetCommit(); c != nil {
			if err := j.commit(shard, p, c); err != nil {
				return err
			}
		}
		for _, n := range e.GetDead().GetTells() {
			for _, number := range n.GetNumbers() {
				t.tells[tellKey(shard, n.GetShard(), number)] = true
			}
		}
	}
	return nil
}

func (j *judge) commit(shard int, p store.Position, c *wire.DurableCommit) error {
	t := j.shards[shard]
	id := string(c.GetEntity())
	before := commit{}
	if all := t.entities[id]; len(all) > 0 {
		before = all[len(all)-1]
	}
	if again := j.gone(before) && c.GetVersion() == 1; c.GetVersion() != before.version+1 && !again {
		return fmt.Errorf("invariant 3: %s: version %d behind %d", id, c.GetVersion(), before.version)
	}
	now := commit{p, c.GetVersion(), c.GetState(), c.GetEnded(), uint64(len(t.entities[id]) + 1), c.GetExpires()}
	if c.GetFolded() {
		j.folded++
		now.state = binary.AppendVarint(nil, fold(before.state, c.GetEvents()))
	}
	for i, e := range c.GetEvents() {
		t.events = append(t.events, recorded{id, c.GetVersion(), e})
		if number := c.GetEvent() + uint64(i); number != uint64(len(t.events)) {
			return fmt.Errorf("invariant 7: event %d of the log has number %d", len(t.events), number)
		}
	}
	t.entities[id] = append(t.entities[id], now)
	key := commandKey(c.GetCommand())
	if c.GetCommand().GetSource().GetIncarnation() == 0 {
		from, number := c.GetCommand().GetSource().GetShard(), c.GetCommand().GetNumber()
		key = tellKey(int(from), uint32(shard), number)
		row := fmt.Sprintf("%d>%s", from, id)
		if last := t.told[row]; number < last {
			return fmt.Errorf("order of tells: %s: number %d of shard %d is applied behind number %d", id, number, from, last)
		}
		t.told[row] = number
	}
	if was, twice := j.applied[key]; twice {
		return fmt.Errorf("invariant 3: %s: command %s was applied at %d, and now at %d", id, key, was.position, p)
	}
	j.applied[key] = now
	for _, tell := range c.GetTells() {
		t.tells[tellKey(shard, tell.GetShard(), tell.GetNumber())] = false
	}
	return nil
}

// head judges a head that the store has applied.
func (j *judge) head(shard int, h store.Head) error {
	t := j.shards[shard]
	if h.Since < t.since {
		return fmt.Errorf("invariant 2: since falls from %d to %d", t.since, h.Since)
	}
	t.since = h.Since
	now := &wire.DurableHead{}
	if err := decode(h.Value, now); err != nil {
		return err
	}
	if was := t.head; was != nil && (now.GetEpoch() < was.GetEpoch() || now.GetEpoch() == was.GetEpoch() && now.GetIncarnation() != was.GetIncarnation()) {
		return fmt.Errorf("invariant 1: a head of epoch %d, home %x, behind one of epoch %d, home %x",
			now.GetEpoch(), now.GetIncarnation(), was.GetEpoch(), was.GetIncarnation())
	}
	t.head = now
	return j.recoverable(shard)
}

// put judges changes of records that the store is about to apply.
func (j *judge) put(incarnation uint64, shard int, changes []store.Change) error {
	h := &wire.DurableHead{}
	if err := decode(j.server.head(shard).Value, h); err != nil {
		return err
	}
	if h.GetIncarnation() != incarnation {
		return fmt.Errorf("invariant 5: %x writes records, the head is of %x", incarnation, h.GetIncarnation())
	}
	for _, c := range changes {
		if c.ID[0] != 'e' {
			continue
		}
		all := j.shards[shard].entities[c.ID[1:]]
		if len(c.Value) == 0 {
			if !slices.ContainsFunc(all, j.gone) {
				return fmt.Errorf("invariant 3: the record of %s is deleted, which never ended", c.ID[1:])
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
			return fmt.Errorf("invariant 3: the record of %s has version %d, which was not committed so", c.ID[1:], r.GetVersion())
		}
	}
	return nil
}

// recoverable is invariant 2.
func (j *judge) recoverable(shard int) error {
	t := j.shards[shard]
	since := j.server.head(shard).Since
	if t.first > 0 && !j.server.whole(shard, max(since, t.first)) {
		return fmt.Errorf("invariant 2: the log begins after %d, from where the head needs it", since)
	}
	for _, id := range slices.Sorted(maps.Keys(t.entities)) {
		all := t.entities[id]
		last := all[len(all)-1]
		if last.position >= since {
			continue
		}
		r := &wire.DurableRecord{}
		rec := j.server.record(shard, "e"+id)
		if rec.Revision == store.None && j.gone(last) {
			continue
		}
		if rec.Revision == store.None {
			return fmt.Errorf("invariant 2: %s v%d at %d is before since %d, and has no record", id, last.version, last.position, since)
		}
		if err := decode(rec.Value, r); err != nil {
			return err
		}
		if r.GetVersion() != last.version || !r.GetEnded() && (last.ended || !last.is(r)) || r.GetEnded() && !j.gone(last) {
			return fmt.Errorf("invariant 2: %s v%d at %d is before since %d, and its record has v%d", id, last.version, last.position, since, r.GetVersion())
		}
	}
	return nil
}

// ordinal is invariant 4: an answer that leaves a home saw an entity as the log has it. It returns how
// many commits the entity had then, over all its lives.
func (j *judge) ordinal(shard int, id string, r result) (uint64, error) {
	all := j.shards[shard].entities[id]
	for i := len(all) - 1; i >= 0; i-- {
		c := all[i]
		if c.ended && r.version == 0 || c.version == r.version && !c.ended && balanceOf(c.state) == r.balance || c.version == r.version && c.ended && r.balance == 0 {
			return uint64(i + 1), nil
		}
	}
	if r.version > 0 {
		return 0, fmt.Errorf("invariant 4: something leaves that saw %s v%d as %d, the log has %d commits", id, r.version, r.balance, len(all))
	}
	return 0, nil
}

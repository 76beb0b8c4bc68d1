package durable

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// server is the simulated store. It keeps all applied writes, unless it is put back to an earlier
// state. Requests and answers may be late or lost.
type server struct {
	w          *world
	judge      *judge
	position   store.Position // the last, of all logs
	revision   store.Revision // the last, of all heads and records
	shards     map[int]*kept
	trouble    trouble
	downTill   time.Duration
	sparse     bool                     // with a blind judge: there are gaps between positions
	putBacks   int                      // how often it was put back to an earlier state
	disk       image                    // the content of its disk
	synced     known                    // what the judge knew at that moment
	stream     map[string]time.Duration // when the stream got each message
	away, back time.Duration            // the stream is unavailable from away until back
	run        uint64                   // counts restarts; requests under way are lost then
}

type trouble struct {
	late  float64 // the share of requests that take up to five seconds
	loses float64 // the share of requests and answers that are lost, and of Puts carried out in part
	busy  float64 // the share of requests that are refused
	stale float64 // the share of reads of an earlier state
}

type kept struct {
	log     []store.Append
	head    []store.Head // all heads so far
	records map[string][]store.Record
}

func newServer(w *world, shards int) *server {
	s := &server{w: w, shards: map[int]*kept{}, stream: map[string]time.Duration{}}
	for i := range shards {
		s.shards[i] = &kept{records: map[string][]store.Record{}}
	}
	return s
}

// patience is the time after which a home considers an answer lost.
const patience = 300 * time.Millisecond

// ask sends a request to the store. After patience, the outcome is Uncertain, or NotApplied for a
// read.
func (s *server) ask(from *home, shard int, r durable.Request, done func(durable.Response)) {
	answered := false
	answer := func(a durable.Response) {
		if !answered {
			answered = true
			a.ID = r.ID
			done(a)
		}
	}
	lost := durable.Response{Outcome: durable.Uncertain}
	if reads(r.Op) {
		lost.Outcome = durable.NotApplied
	}
	s.w.after(patience, func() { answer(lost) })
	if from.cutStore || s.w.chance(s.trouble.loses) {
		return
	}
	delay := s.w.between(300*time.Microsecond, 3*time.Millisecond)
	if s.w.chance(s.trouble.late) {
		delay = s.w.between(0, 5*time.Second)
	}
	run := s.run
	s.w.after(delay, func() {
		if s.run != run {
			return
		}
		a, err := s.serve(from, shard, r)
		if err != nil {
			s.w.fail("%s: %v of shard %d: %v", from.name, r.Op, shard, err)
		}
		if from.cutStore || s.w.chance(s.trouble.loses) {
			return
		}
		s.w.after(s.w.between(300*time.Microsecond, 3*time.Millisecond), func() {
			if s.run == run {
				answer(a)
			}
		})
	})
}

func reads(op durable.Op) bool {
	return op == durable.OpList || op == durable.OpHead || op == durable.OpRead || op == durable.OpGet
}

func (s *server) serve(from *home, shard int, r durable.Request) (a durable.Response, err error) {
	if s.w.now < s.downTill || s.w.chance(s.trouble.busy) {
		return durable.Response{Outcome: durable.NotApplied}, nil
	}
	defer func() { s.w.trace("%s/%d %s = %d", from.name, shard, show(r), a.Outcome) }()
	k := s.shards[shard]
	switch r.Op {
	case durable.OpHead:
		return durable.Response{Head: k.headAt(s.moment(store.None))}, nil
	case durable.OpSetHead:
		if k.headAt(s.revision).Revision != r.Head.Revision {
			return durable.Response{Outcome: durable.Conflict}, nil
		}
		s.revision++
		h := r.Head
		h.Revision = s.revision
		k.head = append(k.head, h)
		return durable.Response{Revision: s.revision}, s.judge.head(shard, h)
	case durable.OpAppend:
		last := store.Start
		if len(k.log) > 0 {
			last = k.log[len(k.log)-1].Position
		}
		if r.Expect != store.Any && r.Expect != last {
			return durable.Response{Outcome: durable.Conflict}, nil
		}
		s.position += 1 + store.Position(s.w.random.IntN(3)) // other logs use positions too
		if s.judge.blind && !s.sparse {
			s.position = last + 1
			if last == store.Start {
				s.position = 1
			}
		}
		k.log = append(k.log, store.Append{Position: s.position, Data: r.Data})
		return durable.Response{Position: s.position}, s.judge.append(shard, s.position, r.Data)
	case durable.OpRead:
		return k.read(r.From, r.To, s.w.chance(s.trouble.stale)), nil
	case durable.OpGet:
		if s.revision < r.AtLeast { // the server was put back
			return durable.Response{Outcome: durable.NotApplied}, nil
		}
		moment := s.moment(r.AtLeast)
		a := durable.Response{Head: k.headAt(moment)}
		for _, id := range r.IDs {
			a.Records = append(a.Records, k.recordAt(id, moment))
		}
		return a, nil
	case durable.OpList:
		return durable.Response{Records: k.list(r.After, s.moment(store.None))}, nil
	case durable.OpPut:
		return s.put(from, shard, r)
	case durable.OpTrim:
		for len(k.log) > 1 && k.log[0].Position < r.Head.Since {
			k.log = k.log[1:]
		}
		return durable.Response{}, s.judge.recoverable(shard)
	}
	return durable.Response{}, fmt.Errorf("serve: unknown op %d", r.Op)
}

func (s *server) put(from *home, shard int, r durable.Request) (durable.Response, error) {
	k := s.shards[shard]
	if k.headAt(s.revision).Revision != r.Head.Revision {
		return durable.Response{Outcome: durable.Conflict}, nil
	}
	if err := s.judge.put(from.incarnation, shard, r.Changes); err != nil {
		return durable.Response{}, err
	}
	changes := r.Changes
	partly := s.w.chance(s.trouble.loses)
	if partly {
		changes = changes[:s.w.random.IntN(len(changes))]
	}
	for _, c := range changes {
		s.revision++
		rec := store.Record{Key: c.ID, Value: c.Value, Revision: s.revision}
		k.records[c.ID] = append(k.records[c.ID], rec)
	}
	a := durable.Response{Revision: s.revision}
	if partly {
		a.Outcome = durable.Uncertain
	}
	return a, s.judge.recoverable(shard)
}

func (s *server) head(shard int) store.Head {
	return s.shards[shard].headAt(s.revision)
}

// putBack makes an older head the latest, as a restore from a backup would.
func (s *server) putBack(shard int, older store.Head) {
	s.revision++
	older.Revision = s.revision
	s.shards[shard].head = append(s.shards[shard].head, older)
	t := s.judge.shards[shard]
	t.since, t.head = older.Since, nil
}

func (s *server) record(shard int, id string) store.Record {
	return s.shards[shard].recordAt(id, s.revision)
}

func (s *server) whole(shard int, since store.Position) bool {
	log := s.shards[shard].log
	return len(log) > 0 && log[0].Position <= since
}

// moment returns the revision that a read sees: the latest, or at random an earlier one, never below
// atLeast.
func (s *server) moment(atLeast store.Revision) store.Revision {
	if s.revision > atLeast && s.w.chance(s.trouble.stale) {
		return atLeast + store.Revision(s.w.random.Uint64N(uint64(s.revision-atLeast)+1))
	}
	return s.revision
}

func (k *kept) headAt(moment store.Revision) store.Head {
	for i := len(k.head) - 1; i >= 0; i-- {
		if k.head[i].Revision <= moment {
			return k.head[i]
		}
	}
	return store.Head{}
}

func (k *kept) recordAt(id string, moment store.Revision) store.Record {
	all := k.records[id]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Revision <= moment {
			if len(all[i].Value) == 0 {
				break
			}
			return all[i]
		}
	}
	return store.Record{Key: id}
}

// list returns the first three records with a revision above after, as they were at the revision
// moment.
func (k *kept) list(after, moment store.Revision) (all []store.Record) {
	for _, key := range slices.Sorted(maps.Keys(k.records)) {
		if r := k.recordAt(key, moment); r.Revision > after {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b store.Record) int { return cmp.Compare(a.Revision, b.Revision) })
	return all[:min(len(all), 3)]
}

func (k *kept) read(from, to store.Position, lags bool) durable.Response {
	if lags {
		return durable.Response{Outcome: durable.NotApplied}
	}
	a := durable.Response{}
	for _, p := range k.log {
		if p.Position >= from && p.Position <= to {
			a.Appends = append(a.Appends, p)
		}
	}
	n := len(a.Appends)
	if n == 0 || a.Appends[n-1].Position != to || from != store.Start && a.Appends[0].Position != from {
		return durable.Response{Outcome: durable.Gone}
	}
	return a
}

// restart makes the store unavailable for a while. Requests under way are lost. Written data is
// kept.
func (s *server) restart(down time.Duration) {
	s.run++
	s.downTill = s.w.now + down
	s.w.trace("the store restarts, for %v", down)
}

func show(r durable.Request) string {
	switch r.Op {
	case durable.OpHead:
		return "head"
	case durable.OpSetHead:
		return fmt.Sprintf("set head over %d, since %d", r.Head.Revision, r.Head.Since)
	case durable.OpAppend:
		return fmt.Sprintf("append behind %d: %s", int64(r.Expect), describe(r.Data))
	case durable.OpRead:
		return fmt.Sprintf("read %d to %d", r.From, r.To)
	case durable.OpGet:
		return fmt.Sprintf("get %q at %d", r.IDs, r.AtLeast)
	case durable.OpPut:
		return fmt.Sprintf("put %d under %d", len(r.Changes), r.Head.Revision)
	case durable.OpList:
		return fmt.Sprintf("list after %d", r.After)
	case durable.OpTrim:
		return fmt.Sprintf("trim below %d", r.Head.Since)
	}
	return "?"
}

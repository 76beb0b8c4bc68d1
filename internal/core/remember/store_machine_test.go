package remember

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/store"
)

// shelf is a store that is slow, fails, and sometimes does not say whether it has written. book is
// the machine of the shard's present home. Homes follow each other.
type shelf struct {
	t         *testing.T
	rng       *rand.Rand
	now       time.Time
	records   map[int]Record
	revision  store.Revision
	book      *StoreMachine
	pending   []func() // requests and answers under way
	tickets   map[Ticket]string
	ticket    Ticket
	safe      map[string]bool // added, and not removed since
	activated map[string]bool
}

func (s *shelf) step(b *StoreMachine, in Input) {
	out := b.Step(s.now, in)
	if b != s.book {
		return // it has no lease: its driver sends nothing any more
	}
	for _, l := range out.Load {
		s.later(b, func() Input {
			a := Loaded{Load: l, Err: s.fault()}
			for i := range Buckets {
				if r, ok := s.records[i]; ok && a.Err == nil {
					a.Records = append(a.Records, r)
				}
			}
			return a
		})
	}
	for _, w := range out.Write {
		s.later(b, func() Input {
			a := Written{Load: w.Load, Bucket: w.Bucket, Err: s.fault()}
			if a.Err != nil && !errors.Is(a.Err, store.ErrUncertain) {
				return a
			}
			if s.records[w.Bucket].Revision != w.Expect {
				a.Err = errors.Join(a.Err, store.ErrConflict)
				return a
			}
			s.revision++
			s.records[w.Bucket] = Record{w.Bucket, w.Value, s.revision}
			a.Revision = s.revision
			return a
		})
	}
	for _, w := range out.Find {
		s.later(b, func() Input {
			return Found{Load: w.Load, Bucket: w.Bucket, Revision: s.records[w.Bucket].Revision, Err: s.fault()}
		})
	}
	for _, d := range out.Done {
		id, mine := s.tickets[d.Ticket]
		delete(s.tickets, d.Ticket)
		if mine && d.Err == nil {
			s.safe[id] = true
		}
	}
	for _, st := range out.Activate {
		for _, id := range st.IDs {
			s.activated[id] = true
		}
	}
}

// later carries out a request some time later, and answers it some time after that.
func (s *shelf) later(b *StoreMachine, do func() Input) {
	s.pending = append(s.pending, func() {
		in := do()
		s.pending = append(s.pending, func() { s.step(b, in) })
	})
}

func (s *shelf) fault() error {
	switch s.rng.IntN(12) {
	case 0:
		return store.ErrUnavailable
	case 1:
		return store.ErrUncertain
	}
	return nil
}

func (s *shelf) pass() {
	if len(s.pending) == 0 {
		s.now = s.now.Add(300 * time.Millisecond)
		s.step(s.book, Tick{})
		return
	}
	i := s.rng.IntN(len(s.pending))
	f := s.pending[i]
	s.pending = slices.Delete(s.pending, i, i+1)
	f()
}

func (s *shelf) act() {
	id := fmt.Sprint("e", s.rng.IntN(30))
	if s.rng.IntN(3) == 0 {
		delete(s.safe, id)
		for t, o := range s.tickets {
			if o == id {
				delete(s.tickets, t)
			}
		}
		s.step(s.book, Remove{cart, id})
		return
	}
	s.ticket++
	s.tickets[s.ticket] = id
	s.step(s.book, Add{cart, id, s.ticket})
}

// TestBookRandom lets the shard's home crash, with requests under way that reach the store later.
// No id that was safe may be lost. In the end the store has exactly the home's ids.
func TestBookRandom(t *testing.T) {
	for seed := range uint64(200) {
		s := &shelf{
			t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1000, 0), records: map[int]Record{},
			tickets: map[Ticket]string{}, safe: map[string]bool{},
		}
		for range 5 {
			s.activated = map[string]bool{}
			s.book, s.tickets = NewStoreMachine(Kind{}), map[Ticket]string{}
			s.step(s.book, Open{ShardID: cart, Epoch: 1})
			must := map[string]bool{}
			for id := range s.safe {
				must[id] = true
			}
			for range 120 {
				if s.rng.IntN(3) == 0 && s.book.shards[cart].loaded {
					s.act()
				}
				s.pass()
			}
			for id := range must {
				if !s.activated[id] {
					t.Fatalf("seed %d: %s was safe and is not activated again", seed, id)
				}
			}
			// Requests of a home that crashed may come late, writes too: they name a
			// revision that the next home has overtaken, or it overtakes theirs.
			for s.rng.IntN(3) > 0 && len(s.pending) > 0 {
				s.pass()
			}
		}
		for range 3000 {
			s.pass()
		}
		s.end(seed)
	}
}

func (s *shelf) end(seed uint64) {
	want, known := s.book.IDs(cart)
	if !known || len(s.tickets) > 0 {
		s.t.Errorf("seed %d: known %t, and %d wait", seed, known, len(s.tickets))
	}
	var got []string
	for i, r := range s.records {
		if s.book.shards[cart].buckets[i].revision == store.None {
			continue // a late write of a former home's, which the first change writes over
		}
		ids, err := decodeBucket(cart, r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, id := range ids {
			if bucketOf(id) != i {
				s.t.Errorf("seed %d: %s is in bucket %d, want %d", seed, id, i, bucketOf(id))
			}
		}
		got = append(got, ids...)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		s.t.Errorf("seed %d: the store has %v, want %v", seed, got, want)
	}
}

// TestBookBounds: a full shard refuses an Add, and a record that is not of this shard is not
// overwritten.
func TestBookBounds(t *testing.T) {
	b := NewStoreMachine(Kind{Max: 1})
	l := b.Step(time.Unix(1, 0), Open{ShardID: cart, Epoch: 1}).Load[0]
	value, err := encodeBucket(placement.ShardID{Kind: "Other", Shard: 4}, []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	b.Step(time.Unix(1, 0), Add{cart, "a", 1})
	out := b.Step(time.Unix(1, 0), Loaded{Load: l, Records: []Record{{0, value, 1}}})
	if len(out.Write) > 0 || len(out.Done) != 1 || out.Done[0].Err == nil {
		t.Errorf("a foreign record: wrote %v, done %v, want an error", out.Write, out.Done)
	}
	out = b.Step(time.Unix(1, 0), Add{cart, "b", 2})
	if len(out.Done) != 1 || !errors.Is(out.Done[0].Err, ErrFull) {
		t.Errorf("one too many: %v, want ErrFull", out.Done)
	}
}

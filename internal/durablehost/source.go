package durablehost

import (
	"slices"
	"sync"

	"github.com/shardgen/shardgen/internal/durable"
)

// maxLag is how many finished commands a shard may have to keep because of an older one that is
// not finished. Then the older one is stuck.
const maxLag = 4096

// A Source numbers the commands of one process, and knows which are not finished. Of those that
// take much longer than others, up to [durable.MaxStuck] are set aside as stuck, so that shards
// need not keep all commands above them. The zero value is ready, and it is safe for concurrent
// use.
//
// Invariants:
//  1. A number up to floor is finished, unless it is stuck.
//  2. Stuck numbers are ascending, at most floor, and not finished.
type Source struct {
	mu    sync.Mutex
	floor uint64
	done  []bool // whether floor+1, floor+2, … are finished
	first int    // of floor+1 in done
	ended int    // how many of done are finished, from first on
	stuck []uint64
	coded durable.Numbers // of stuck
}

// Begin sets id, which is zero, to that of a new command, with the numbers that are finished at
// the moment.
func (s *Source) Begin(id *ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, false)
	id.Number = s.floor + uint64(len(s.done)-s.first)
	s.update(id)
}

// Update puts the numbers that are finished at the moment into an ID.
func (s *Source) Update(id *ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(id)
}

func (s *Source) update(id *ID) {
	id.Floor, id.Past, id.Stuck = s.floor+1, 0, ""
	if len(s.stuck) > 0 {
		id.Floor, id.Past, id.Stuck = s.stuck[0], s.floor+1, s.coded
	}
}

// End says that nobody waits for a command any more.
func (s *Source) End(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, stuck := slices.BinarySearch(s.stuck, number); stuck {
		s.stuck = slices.Delete(s.stuck, i, i+1)
		s.coded = durable.NumbersOf(s.stuck)
	} else if number > s.floor {
		if i := s.first + int(number-s.floor) - 1; !s.done[i] {
			s.done[i] = true
			s.ended++
		}
	}
	s.advance()
}

// advance raises the floor over numbers that are finished, and those that are stuck.
func (s *Source) advance() {
	for s.first < len(s.done) {
		switch {
		case s.done[s.first]:
			s.ended--
		case s.ended >= maxLag && len(s.stuck) < durable.MaxStuck:
			s.stuck = append(s.stuck, s.floor+1)
			s.coded = durable.NumbersOf(s.stuck)
		default:
			s.compact()
			return
		}
		s.first++
		s.floor++
	}
	s.compact()
}

// compact drops the finished numbers once they are more than half, so that each is moved once on
// average.
func (s *Source) compact() {
	if s.first > len(s.done)/2 {
		s.done = append(s.done[:0], s.done[s.first:]...)
		s.first = 0
	}
}

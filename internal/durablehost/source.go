package durablehost

import "sync"

// A Source numbers the commands of one process, and knows the lowest that is not finished.
// The zero value is ready, and it is safe for concurrent use.
type Source struct {
	mu    sync.Mutex
	floor uint64 // the lowest number that is not finished, less 1
	done  []bool // whether floor+1, floor+2, … are finished
	first int    // of floor+1 in done
}

// Begin returns the number of a new command, and the floor at the moment.
func (s *Source) Begin() (number, floor uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, false)
	return s.floor + uint64(len(s.done)-s.first), s.floor + 1
}

// Floor returns the lowest number that is not finished.
func (s *Source) Floor() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.floor + 1
}

// End says that nobody waits for a command any more.
func (s *Source) End(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[s.first+int(number-s.floor)-1] = true
	for s.first < len(s.done) && s.done[s.first] {
		s.first++
		s.floor++
	}
	if s.first > len(s.done)/2 { // so that each is moved once on average
		s.done = append(s.done[:0], s.done[s.first:]...)
		s.first = 0
	}
}

package load

import "time"

// Failures counts the calls that failed after a time, and returns the ends of the
// first and of the last of them: both zero if none failed.
func (l *Load) Failures(after time.Time) (n int, first, last time.Time) {
	for _, p := range l.pauses {
		p.mu.Lock()
		for _, at := range p.failures {
			if !at.After(after) {
				continue
			}
			n++
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
		}
		p.mu.Unlock()
	}
	return n, first, last
}

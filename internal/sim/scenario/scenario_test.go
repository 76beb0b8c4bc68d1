package scenario

import "testing"

// TestReplay: a scenario comes to the same twice, step by step, and breaks no
// invariant.
func TestReplay(t *testing.T) {
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			o := Options{Nodes: 12, Seed: 3}
			first, second := s.Run(o), s.Run(o)
			if first.Err != nil {
				t.Error(first.Err)
			}
			if first.Hash != second.Hash || first.Steps != second.Steps {
				t.Errorf("two runs differ: %016x after %d steps, %016x after %d", first.Hash, first.Steps, second.Hash, second.Steps)
			}
			if first.Settled < 0 || first.Removed != 0 {
				t.Errorf("got settled %v, %d healthy removed; want an agreement and nobody removed", first.Settled, first.Removed)
			}
		})
	}
}

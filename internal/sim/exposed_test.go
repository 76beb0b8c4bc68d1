package sim

import (
	"testing"
	"time"
)

// TestOldestComesBackAlone: of two members, the oldest stands still until the server gives
// its connection up, and the other removes it because it is gone. The
// oldest comes back when the other cannot be reached: it must not go on by its age.
// Where the other could not find it gone, or has counted on the oldest since, it must.
func TestOldestComesBackAlone(t *testing.T) {
	for _, test := range []struct {
		name    string
		servers int
		fault   func(w *World, oldest, other *Node)
		goesOn  bool
	}{
		{"removed by the other", 1, func(w *World, oldest, other *Node) {
			w.Freeze(oldest)
			w.RunUntil(time.Minute, 10*time.Millisecond, func() bool { _, n := other.Set(); return n == 1 })
			w.Lose(other, 1, 1)
			w.Thaw(oldest)
		}, false},
		{"removed by the other, which stands still", 1, func(w *World, oldest, other *Node) {
			w.Freeze(oldest)
			w.RunUntil(time.Minute, 10*time.Millisecond, func() bool { _, n := other.Set(); return n == 1 })
			w.Freeze(other)
			w.Thaw(oldest)
		}, false},
		{"the other was at another server", 2, func(w *World, oldest, other *Node) {
			w.Freeze(oldest)
			w.Run(8 * time.Second)
			w.Part(w.Servers()[0], w.Servers()[1])
			w.Thaw(oldest)
		}, true},
		{"the server restarts", 1, func(w *World, _, other *Node) {
			w.StopServer(w.Servers()[0])
			w.Run(8 * time.Second)
			w.KillHost(other)
			w.StartServer(w.Servers()[0])
		}, true},
		{"the other has counted on it since", 1, func(w *World, oldest, other *Node) {
			w.Freeze(oldest)
			w.Run(5500 * time.Millisecond)
			w.Thaw(oldest)
			w.Run(10 * time.Second)
			w.Lose(other, 1, 1)
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, nodes := cluster(t, Config{Seed: 5, Servers: test.servers, HostTimeout: 5 * time.Second}, 2)
			test.fault(w, nodes[0], nodes[1])
			w.Run(time.Minute)
			if w.Err() != nil {
				t.Fatal(w.Err())
			}
			if goesOn := !nodes[0].Ended(); goesOn != test.goesOn {
				t.Errorf("the oldest goes on: %v, want %v (%v)", goesOn, test.goesOn, nodes[0].Last())
			}
			if test.goesOn && !w.Lease(nodes[0]) {
				t.Error("the oldest has no lease")
			}
		})
	}
}

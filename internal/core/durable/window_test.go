package durable

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A model is a window that is compared with a map after every step.
type model struct {
	t      *testing.T
	window window
	want   map[uint64]uint64 // hashes by number
	most   int               // of the map
	hash   uint64
	below  uint64
}

func (m *model) put(number uint64) {
	m.hash++
	m.want[number] = m.hash
	m.most = max(m.most, len(m.want))
	if a := m.window.put(number, applied{hash: m.hash, answer: []byte("answer")}); a.hash != m.hash {
		m.t.Fatalf("put %d: got hash %d, want %d", number, a.hash, m.hash)
	}
}

func (m *model) remove(number uint64) {
	delete(m.want, number)
	m.window.remove(number)
}

// raise removes the numbers that f says are finished.
func (m *model) raise(f finished) {
	m.below = max(m.below, f.below)
	gone := map[uint64]uint64{}
	m.window.removeIf(f, func(n name, a *applied) { gone[n.number] = a.hash })
	for n, hash := range m.want {
		if f.has(n) {
			if gone[n] != hash {
				m.t.Fatalf("%+v: %d is not removed", f, n)
			}
			delete(m.want, n)
			delete(gone, n)
		}
	}
	if len(gone) > 0 {
		m.t.Fatalf("%+v: %v are removed too", f, gone)
	}
}

func (m *model) check(numbers ...uint64) {
	m.t.Helper()
	if err := m.window.check(); err != nil {
		m.t.Fatal(err)
	}
	got := map[uint64]uint64{}
	for _, c := range m.window.commands() {
		got[c.number] = c.hash
	}
	if !maps.Equal(got, m.want) || len(got) != len(m.window.commands()) {
		m.t.Fatalf("got %v, want %v", got, m.want)
	}
	for _, n := range numbers {
		a := m.window.get(n)
		if want, there := m.want[n]; there != (a != nil) || there && a.hash != want {
			m.t.Fatalf("get %d: got %v, want %d, %v", n, a, want, there)
		}
	}
	if room := max(8, 4*m.most); cap(m.window.all) > room {
		m.t.Fatalf("room for %d commands, of which there were at most %d", cap(m.window.all), m.most)
	}
}

// FuzzWindow runs the operations on a window that its input encodes, two bytes each.
func FuzzWindow(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 50 {
		b := make([]byte, 20*n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &model{t: t, want: map[uint64]uint64{}}
		for next := uint64(1); len(b) > 1; b = b[2:] {
			n := uint64(b[1])
			number := next - min(next-1, n%32)
			switch b[0] % 8 {
			case 0, 1, 2: // nearly in order
				next += 1 + n%4
				m.put(next - min(next-1, n/16))
			case 3: // anywhere
				m.put(1 + n)
			case 4:
				m.remove(number)
			case 5: // whatever is the lowest
				if all := m.window.commands(); len(all) > 0 {
					m.remove(all[0].number)
				}
			case 6:
				m.raise(finished{below: number})
			default:
				m.raise(finished{below: number, stuck: stuckBelow(number, n)})
			}
			m.check(next, number, 1+n)
		}
	})
}

// stuckBelow returns some numbers below another.
func stuckBelow(number, n uint64) (all []uint64) {
	for d := 1 + n/64; d < number && len(all) < MaxStuck; d += 1 + n%8 {
		all = append(all, number-d)
	}
	slices.Reverse(all)
	return all
}

// TestWindowMovesOn: however many commands come and go, a window takes only the memory for those
// that are there at once, and none when all are gone.
func TestWindowMovesOn(t *testing.T) {
	for _, there := range []uint64{1, 2, 3, 100, 4 << 10} {
		m := &model{t: t, want: map[uint64]uint64{}}
		for n := uint64(1); n <= 4*there+100; n++ {
			m.put(n)
			if n >= there {
				m.raise(finished{below: n - there + 2})
			}
			if n%1000 == 1 || there < 1000 {
				m.check(n)
			}
		}
		m.raise(finished{below: 1 << 62})
		m.check()
		if cap(m.window.all) > keptWindow {
			t.Errorf("room for %d commands is kept of an empty window of %d", cap(m.window.all), there)
		}
	}
}

// BenchmarkTable begins and ends commands, with a given number under way at once.
func BenchmarkTable(b *testing.B) {
	for _, there := range []uint64{1, 16, 256, 16 << 10} {
		b.Run(fmt.Sprint(there), func(b *testing.B) {
			b.ReportAllocs()
			t := table{sources: map[Source]*known{}}
			k := t.source(&Source{Incarnation: 1}, time.Time{})
			w := &wire.DurableCommand{}
			for n := uint64(1); b.Loop(); n++ {
				c := Command{Number: n}
				if k.admit(&c).Verdict != Run {
					b.Fatal("it does not run")
				}
				t.begin(k, &c)
				if n <= there {
					continue
				}
				w.Number = n - min(there-1, 50)
				t.end(k, w, 1)
				t.raise(k, finished{below: n - there})
			}
		})
	}
}

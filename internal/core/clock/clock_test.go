package clock

import (
	"math/rand/v2"
	"testing"
	"time"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// start is the store's time when the monotonic clock of the tests is at 0.
var start = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// ask returns the answer of a store whose clock is wrong by off. The request is sent at the
// monotonic time sent. The request takes there, and the answer back.
func ask(sent, there, back, off time.Duration) Sample {
	return Sample{Sent: sent, Received: sent + there + back, Store: start.Add(sent + there + off)}
}

// offset returns how far an estimate is from the time of a store with a right clock.
func offset(r Reading) time.Duration { return r.Sub(ReadingAt(start, 0)) }

func TestEstimator(t *testing.T) {
	slow := ask(0, 400*ms, 0, 0)
	for _, tc := range []struct {
		name    string
		samples []Sample
		want    time.Duration
	}{
		{"one", []Sample{ask(0, 2*ms, 2*ms, 0)}, -2 * ms},
		{"one that came back slowly", []Sample{ask(0, 0, 400*ms, 0)}, -400 * ms},
		{"the fastest one", []Sample{slow, ask(30*sec, 2*ms, 2*ms, 0), ask(60*sec, 400*ms, 0, 0)}, -2 * ms},
		{"the latest one of equals", []Sample{ask(0, 0, 2*ms, 0), ask(sec, 2*ms, 0, 0)}, 0},
		{"a fast one grows old", []Sample{ask(0, 0, 0, 5*ms), ask(100*sec, 2*ms, 2*ms, 0)}, -2 * ms},
		{"ten are kept", append([]Sample{ask(0, 0, 0, 7*ms)}, many(10, 5*sec, 300*ms)...), 0},
		{"it follows what is less than a step", []Sample{ask(0, 0, 0, 0), ask(30*sec, 0, 0, 900*ms)}, 900 * ms},
		{"one that contradicts", []Sample{ask(0, 0, 0, 0), ask(30*sec, 0, 0, time.Hour)}, 0},
		{"two that contradict", []Sample{ask(0, 0, 0, 0), ask(30*sec, 0, 0, time.Hour), ask(60*sec, 0, 0, time.Hour)}, 0},
		{"three that contradict", []Sample{
			ask(0, 0, 0, 0),
			ask(30*sec, 0, 0, -time.Hour), ask(60*sec, 0, 0, -time.Hour), ask(90*sec, 0, 0, -time.Hour),
		}, -time.Hour},
		{"three, with one between that agrees", []Sample{
			ask(0, 0, 0, 0),
			ask(30*sec, 0, 0, 5*sec), ask(60*sec, 0, 0, 5*sec), ask(90*sec, 0, 0, 0), ask(120*sec, 0, 0, 5*sec),
		}, 0},
		{"three that contradict each other", []Sample{
			ask(0, 0, 0, 0),
			ask(30*sec, 0, 0, 5*sec), ask(60*sec, 0, 0, 10*sec), ask(90*sec, 0, 0, 5*sec),
		}, 0},
		{"a slow answer does not contradict", []Sample{ask(0, 0, 0, 0), ask(30*sec, 8*sec, 0, 0), ask(60*sec, 0, 8*sec, 0)}, 0},
		{"no time at all", []Sample{ask(0, 0, 0, 0), {Sent: sec, Received: sec}}, 0},
		{"an answer before its request", []Sample{ask(0, 0, 0, 0), {Sent: 2 * sec, Received: sec, Store: start}}, 0},
	} {
		var e Estimator
		var got Reading
		for _, s := range tc.samples {
			got, _ = e.Add(s)
		}
		if off := offset(got); off != tc.want {
			t.Errorf("%s: off by %v, want %v", tc.name, off, tc.want)
		}
	}
	var e Estimator
	if _, ok := e.Add(Sample{}); ok {
		t.Error("the time is known before the first answer")
	}
}

// many returns n answers whose round trip is only the way to the store.
func many(n int, every, there time.Duration) (all []Sample) {
	for i := range n {
		all = append(all, ask(time.Duration(i+1)*every, there, 0, 0))
	}
	return all
}

// A world is a store with a drifting clock, which is set now and then, and a Line that reads it.
type world struct {
	now  time.Duration // monotonic, of the process
	off  time.Duration // how far the store's clock was set
	rate int64         // how many millionths the store's clock is faster
}

func (w *world) store() time.Time {
	return start.Add(w.now + w.off + w.now*time.Duration(w.rate)/1_000_000)
}

// TestEstimateIsBounded: the estimate is behind by at most the fastest round trip of the last ten,
// and the drift. It is ahead only by the drift. Neither holds between a step of the store's clock
// and the third answer after that step.
func TestEstimateIsBounded(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := &world{rate: r.Int64N(101) - 50}
		var e Estimator
		var line Line
		var last time.Time
		var was time.Duration // when last was read
		pending := 0          // answers until a step counts
		fastest := []time.Duration{}
		for range 200 {
			w.now += time.Duration(r.Int64N(int64(30 * sec)))
			if r.IntN(20) == 0 && pending == 0 && len(fastest) > 0 {
				w.off += time.Duration(r.Int64N(int64(4*time.Hour))) - 2*time.Hour
				pending = agreeing
				if len(fastest) < agreeing { // the estimate may go by any of the answers
					pending++
				}
			}
			s := Sample{Sent: w.now}
			trip := [2]time.Duration{time.Duration(r.Int64N(int64(100 * ms))), time.Duration(r.Int64N(int64(100 * ms)))}
			w.now += trip[0]
			s.Store = w.store()
			w.now += trip[1]
			s.Received = w.now
			got, ok := e.Add(s)
			if !ok {
				t.Fatalf("seed %d: the time is not known", seed)
			}
			fastest = append(fastest, trip[0]+trip[1])
			if pending > 0 {
				pending--
				if pending == 0 {
					fastest = fastest[max(0, len(fastest)-agreeing):]
				}
			}
			recent := fastest[max(0, len(fastest)-kept):]
			if pending == 0 && !e.Doubted() {
				ahead := time.Duration(len(recent))*30*sec/drift + ms
				behind := 200*ms + ahead
				if off := got.At(w.now).Sub(w.store()); off > ahead || off < -behind {
					t.Fatalf("seed %d: off by %v, want at most %v, and no less than %v", seed, off, ahead, -behind)
				}
			}
			now := line.Now(got, w.now)
			if now.Before(last) {
				t.Fatalf("seed %d: the line went back from %v to %v", seed, last, now)
			}
			if most := last.Add((w.now - was) * 11 / 10); !last.IsZero() && now.After(most) {
				t.Fatalf("seed %d: the line jumped from %v to %v in %v", seed, last, now, w.now-was)
			}
			last, was = now, w.now
		}
	}
}

func TestLine(t *testing.T) {
	var l Line
	right, ahead := ReadingAt(start, 0), ReadingAt(start.Add(10*sec), 0)
	for _, tc := range []struct {
		what string
		r    Reading
		at   time.Duration
		want time.Duration // after start
	}{
		{"it begins", right, 0, 0},
		{"it goes with the monotonic clock", right, sec, sec},
		{"behind: a tenth faster", ahead, 11 * sec, 12 * sec},
		{"still", ahead, 91 * sec, 100 * sec},
		{"caught up", ahead, 111 * sec, 121 * sec},
		{"as fast", ahead, 112 * sec, 122 * sec},
		{"ahead: half as fast", right, 120 * sec, 126 * sec},
		{"caught up again", right, 140 * sec, 140 * sec},
		{"as fast again", right, 141 * sec, 141 * sec},
		{"an earlier time counts as the same", right, 140 * sec, 141 * sec},
	} {
		got := l.Now(tc.r, tc.at)
		if got.Sub(start) != tc.want {
			t.Errorf("%s: got %v, want %v", tc.what, got.Sub(start), tc.want)
		}
		if at := l.Reading().At(l.at); !at.Equal(got) {
			t.Errorf("%s: its reading has %v, want %v", tc.what, at, got)
		}
	}
}

package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// downUntil fails until a moment, and then answers at once.
type downUntil struct{ up time.Time }

func (w downUntil) burst(context.Context, string, uint64, int) ([]Fate, string, error) {
	if time.Now().Before(w.up) {
		return []Fate{Refused}, "", errors.New("down")
	}
	return []Fate{Answered}, "n1", nil
}

// A sender with a slow tick notices all the same when its entity answers again.
func TestPauseEndsWithTheFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := &Load{stop: make(chan struct{})}
		pauses := newPauses("x")
		p := &pair{load: l, path: downUntil{begin.Add(time.Second)}, pauses: pauses}
		go p.run(begin, 3*time.Second, 0)
		<-time.After(8 * time.Second) // the bubble's
		close(l.stop)
		synctest.Wait()
		if got, want := pauses.longest(begin, time.Now()), time.Second; got < want || got >= want+retryAfter {
			t.Errorf("longest pause %v, want %v and less than %v more", got, want, retryAfter)
		}
		if made := l.Made(); made != 25 { // 20 that failed, then 1, and 3 and 1 by the tick
			t.Errorf("%d calls, want 25", made)
		}
	})
}

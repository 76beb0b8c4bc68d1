package natsstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestTrimsOfAStreamAreFew: a stream is trimmed at once, and then once in trimPause, however many
// shards ask. Other streams do not wait.
func TestTrimsOfAStreamAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all trims
		begun := time.Now()
		want := func(stream string, now bool, after time.Duration) {
			t.Helper()
			got, err := all.wait(t.Context(), stream)
			if got != now || err != nil || time.Since(begun) != after {
				t.Errorf("%s: %v, %v after %v: want %v after %v", stream, got, err, time.Since(begun), now, after)
			}
		}
		want("a", true, 0)
		go want("a", true, trimPause)
		synctest.Wait()
		want("a", false, 0)
		want("b", true, 0)
		time.Sleep(trimPause)
		synctest.Wait()
		given, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := all.wait(given, "a")
			ended <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; err == nil {
			t.Error("a trim that was given up has no error")
		}
		want("a", true, 2*trimPause)
	})
}

// TestTrimLooksSeldomAtTheSettings: a stream's settings are checked by its first trim, and then
// once a minute.
func TestTrimLooksSeldomAtTheSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all trims
		look := func(stream string, want bool) {
			t.Helper()
			if _, err := all.wait(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
			if got := all.checks(stream); got != want {
				t.Errorf("%s: looked %v, want %v", stream, got, want)
			}
		}
		look("a", true)
		look("a", false)
		look("b", true)
		time.Sleep(checkPause)
		look("a", true)
	})
}

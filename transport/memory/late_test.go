package memory_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/transport/memory"
)

// TestDelay: messages arrive within the bounds and in order, and Stop loses the messages on their
// way.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const least, most = 10 * time.Millisecond, 30 * time.Millisecond
		b := memory.NewBroker(memory.Options{Seed: 1})
		a, to := open(t, b, "a", nil), open(t, b, "b", nil)
		send := func(word string) {
			if err := a.Send(0, peer("b"), 0, []byte(word)); err != nil {
				t.Fatal(err)
			}
		}
		b.Delay(memory.Path{From: memory.Any, To: memory.Any}, least, most)
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint(i))
			send(want[i])
		}
		sleep := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		sleep(least - 1)
		if got := received(to); got != "" {
			t.Errorf("received %q before the least delay", got)
		}
		sleep(most - least)
		first := received(to)
		sleep(1)
		if got, all := strings.TrimSpace(first+" "+received(to)), strings.Join(want, " "); got != all {
			t.Errorf("received %q, want %q", got, all)
		}
		if first == "" {
			t.Error("nothing was delayed by less than the most")
		}
		send("kept") // this path has no delay, but an earlier message is on its way
		b.Mend(memory.Path{From: memory.Any, To: memory.Any})
		send("after")
		if got := received(to); got != "" {
			t.Errorf("received %q before earlier messages on their way", got)
		}
		sleep(most)
		if got := received(to); got != "kept after" {
			t.Errorf("received %q, want kept after", got)
		}
		send("at once")
		if got := received(to); got != "at once" {
			t.Errorf("received %q, want at once", got)
		}
		b.Delay(memory.Path{From: "a", To: "b"}, least, least)
		send("lost")
		b.Restart()
		sleep(most)
		if got := received(to); got != "" {
			t.Errorf("received %q, sent before the restart", got)
		}
	})
}

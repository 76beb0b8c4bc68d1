package versions

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/gen/versions/today"
	"github.com/shardgen/shardgen/internal/gen/versions/yesterday"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestEventsOfANewerProgram checks that a program refuses, at every call, to open an entity with an
// event of which it does not know a part. The program applies and stores nothing, and the newer
// program then finds all events.
func TestEventsOfANewerProgram(t *testing.T) {
	for name, tt := range map[string]struct {
		event    today.Booking
		want     string // in the error; "": yesterday's program knows all of it
		sum, all int64
	}{
		"a field":                 {today.Booking{Amount: 1, Fee: 2}, "event of Purse: field 6: this program does not know the field", 1, 2},
		"a field of a struct":     {today.Booking{Amount: 1, Where: today.Place{Room: 3, Shelf: 2}}, "field 2: this program does not know the field", 1, 2},
		"a field of an element":   {today.Booking{Amount: 1, Parts: []today.Part{{Count: 1}, {Weight: 2}}}, "field 2: this program does not know the field", 1, 2},
		"a case":                  {today.Booking{Amount: 1, By: today.Check{Number: 2}}, "yesterday.Means: this program does not know case 2", 1, 2},
		"nothing that is unknown": {today.Booking{Amount: 1, By: today.Cash{Coins: 1}, Parts: []today.Part{{Count: 1}}}, "", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			start := members(t)
			const path = "github.com/shardgen/shardgen/internal/gen/versions/today"
			older := func(n *shard.Node) error { return yesterday.HostPurseAs(n, path) }
			newer := func(n *shard.Node) error { return today.HostPurse(n, func() *today.Purse { return &today.Purse{} }) }

			n := start("oldest", older)
			for range 2 { // the first one's state, the second one's event
				_, err := yesterday.NewPurseClientAs(n, path).Ref("x").Book(within(t), yesterday.Booking{Old: "a field that is gone today"})
				ok(t, "book", err)
			}
			ok(t, "close", n.Close())
			n = start("new", newer)
			_, err := today.NewPurseClient(n).Ref("x").Book(within(t), tt.event)
			ok(t, "book", err)
			ok(t, "close", n.Close())

			n = start("old", older)
			purse := yesterday.NewPurseClientAs(n, path).Ref("x")
			sum, err := purse.Get(within(t))
			if tt.want == "" {
				ok(t, "an event that is known", err)
				equal(t, "sum", sum, tt.sum)
			} else {
				for range 5 { // more than events that follow a state
					if _, err = purse.Book(within(t), yesterday.Booking{Amount: 10}); err == nil {
						break
					}
				}
				if !errors.Is(err, shard.ErrActivation) || shard.OutcomeOf(err) != shard.NotExecuted ||
					!strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "purse/x: event 2 of 2") ||
					!strings.Contains(err.Error(), "run the program that recorded the event") {
					t.Errorf("got %v, want ErrActivation, not executed, with %q", err, tt.want)
				}
			}
			ok(t, "shutdown", n.Shutdown(within(t)))

			n = start("again", newer)
			sum, more, err := today.NewPurseClient(n).Ref("x").Get(within(t))
			ok(t, "get", err)
			equal(t, "sums", [2]int64{sum, more}, [2]int64{tt.sum, tt.all})
		})
	}
}

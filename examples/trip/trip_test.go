package trip_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/trip"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

const (
	latency  = 10 * time.Millisecond
	patience = 30 * time.Second
)

// TestKilledAtEachStep books one trip after another, and kills a node 0 ms, 5 ms, 10 ms and so on
// after the booking began. In the end the trip has a seat of each service, or none.
func TestKilledAtEachStep(t *testing.T) {
	for step := range 24 {
		for _, victim := range []string{"n1", "n2", "n3"} {
			t.Run(fmt.Sprintf("%s after %v", victim, time.Duration(step)*latency/2), func(t *testing.T) {
				run(t, 1, func(t *testing.T, c *shardtest.Cluster, book func()) {
					book()
					c.Advance(time.Duration(step) * latency / 2)
					c.Kill(victim)
				})
			})
		}
	}
}

// TestExpires books trips while a service is stuck: the deadline cancels them, and the answers that
// come later give their seats back.
func TestExpires(t *testing.T) {
	run(t, 5, func(t *testing.T, c *shardtest.Cluster, book func()) {
		hotel := trip.NewSeatsClient(c.Client()).Ref("hotel")
		if err := hotel.Stop(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		book()
		c.Advance(2 * patience)
		status, err := trip.NewTripClient(c.Client()).Ref("trip-0").Status(t.Context())
		if err != nil || status != trip.Canceled {
			t.Errorf("got %s, %v; want canceled", status, err)
		}
		if err := hotel.Stop(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		c.Advance(4 * patience) // its answers come late
	})
}

// TestStorm books more trips than there are seats, during half a minute of random faults.
func TestStorm(t *testing.T) {
	run(t, 20, func(t *testing.T, c *shardtest.Cluster, book func()) {
		book()
		c.Storm(patience)
	})
}

// run books trips while disturb runs, and then checks that no seat is lost or given twice.
func run(t *testing.T, trips int, disturb func(t *testing.T, c *shardtest.Cluster, book func())) {
	const seats = 10
	services := []string{"flight", "hotel", "car"}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		all, stock := trip.NewTripClient(c.Client()), trip.NewSeatsClient(c.Client())
		for _, s := range services {
			if err := stock.Ref(s).Offer(t.Context(), seats); err != nil {
				t.Fatal(err)
			}
		}
		booked := make(chan error, trips)
		disturb(t, c, func() {
			for i := range trips {
				go func() {
					booked <- all.Ref(fmt.Sprint("trip-", i), shard.Timeout(time.Hour)).Book(t.Context(), services, patience)
				}()
			}
		})
		var errs []error
		for range trips {
			errs = append(errs, <-booked)
		}
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		c.Until("each trip has all seats or none", func() bool {
			taken := map[string][]string{}
			for _, s := range services {
				free, by, err := stock.Ref(s).Report(t.Context())
				if err != nil || free+int64(len(by)) != seats {
					return false
				}
				taken[s] = by
			}
			for i := range trips {
				id := fmt.Sprint("trip-", i)
				status, err := all.Ref(id).Status(t.Context())
				if err != nil || status != trip.Booked && status != trip.Canceled {
					return false
				}
				for _, s := range services {
					if slices.Contains(taken[s], id) != (status == trip.Booked) {
						return false
					}
				}
			}
			return true
		})
	}, shardtest.Nodes(3), shardtest.Host(trip.Host), shardtest.Latency(latency, latency))
}

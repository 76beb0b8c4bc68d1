// Package trip is an example of a workflow without a workflow engine: a saga with a deadline. A trip
// reserves seats at several services. It is booked when it has all seats; otherwise it releases
// them. Its tests kill nodes at each step.
package trip

import (
	"context"
	"errors"
	"slices"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// The states of a trip.
const (
	New       = ""
	Reserving = "reserving"
	Booked    = "booked"
	Canceled  = "canceled"
)

// A Trip needs a seat of each of its services. Its state is the state of the workflow, and each of
// its methods is a step.
//
//shard:entity durable
type Trip struct {
	ID       string       `shard:"id"`
	State    string       `shard:"state"`
	Services []string     `shard:"state"`
	Has      []string     `shard:"state"` // services that have reserved a seat
	Seats    *SeatsClient `shard:"-"`     // set by the factory
}

// Book reserves a seat of each service. If they have not all answered within patience, the trip is
// canceled.
func (t *Trip) Book(ctx context.Context, services []string, patience time.Duration) error {
	if t.State != New {
		return nil // the same request again
	}
	t.State, t.Services = Reserving, services
	err := TripSelf(ctx, shard.In(patience)).Expire(ctx)
	for _, s := range services {
		err = errors.Join(err, t.Seats.Tell(s).Reserve(ctx, t.ID))
	}
	return err // otherwise the state, the deadline and all tells are committed together
}

// Reserved receives the answer of a service.
func (t *Trip) Reserved(ctx context.Context, service string) error {
	if t.State != Reserving {
		return t.Seats.Tell(service).Release(ctx, t.ID) // too late
	}
	if t.Has = append(t.Has, service); len(t.Has) < len(t.Services) {
		return nil
	}
	t.State = Booked
	_, err := shard.Unschedule(ctx, "Expire")
	return err
}

// Refused receives the answer of a service that has no seat left.
func (t *Trip) Refused(ctx context.Context, _ string) error { return t.cancel(ctx) }

// Expire cancels a trip whose services have not all answered in time.
func (t *Trip) Expire(ctx context.Context) error { return t.cancel(ctx) }

// cancel gives the trip's seats back. A seat reserved later is given back by Reserved.
func (t *Trip) cancel(ctx context.Context) error {
	if t.State != Reserving {
		return nil
	}
	t.State = Canceled
	_, err := shard.Unschedule(ctx, "Expire")
	for _, s := range t.Has {
		err = errors.Join(err, t.Seats.Tell(s).Release(ctx, t.ID))
	}
	t.Has = nil
	return err
}

// Status returns the state of the trip.
//
//shard:read
func (t *Trip) Status(context.Context) (state string, err error) { return t.State, nil }

// Seats are the seats of one service.
//
//shard:entity durable
type Seats struct {
	ID    string      `shard:"id"`
	Free  int64       `shard:"state"`
	Taken []string    `shard:"state"` // trips that have a seat
	Stuck bool        `shard:"state"` // it cannot decide at the moment
	Trips *TripClient `shard:"-"`     // set by the factory
}

// Offer adds seats.
func (s *Seats) Offer(_ context.Context, seats int64) error {
	s.Free += seats
	return nil
}

// Stop makes the service unable to decide, or able again.
func (s *Seats) Stop(_ context.Context, stuck bool) error {
	s.Stuck = stuck
	return nil
}

// Reserve takes a seat for a trip, and tells the trip.
func (s *Seats) Reserve(ctx context.Context, trip string) error {
	switch {
	case s.Stuck:
		return shard.TryAgain(errors.New("the service cannot decide"))
	case s.Free == 0:
		return s.Trips.Tell(trip).Refused(ctx, s.ID)
	}
	s.Free--
	s.Taken = append(s.Taken, trip)
	return s.Trips.Tell(trip).Reserved(ctx, s.ID)
}

// Release gives the seat of a trip back.
func (s *Seats) Release(_ context.Context, trip string) error {
	if i := slices.Index(s.Taken, trip); i >= 0 {
		s.Taken = slices.Delete(s.Taken, i, i+1)
		s.Free++
	}
	return nil
}

// Report returns the free seats, and the trips that have one.
//
//shard:read
func (s *Seats) Report(context.Context) (free int64, taken []string, err error) {
	return s.Free, s.Taken, nil
}

// Host makes a node host trips and seats.
func Host(n *shard.Node) error {
	trips, seats := NewTripClient(n), NewSeatsClient(n)
	return errors.Join(
		HostTrip(n, func() *Trip { return &Trip{Seats: seats} }),
		HostSeats(n, func() *Seats { return &Seats{Trips: trips} }),
	)
}

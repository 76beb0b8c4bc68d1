package today

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
)

// Booking is the event of Purse, with parts that package yesterday does not have.
type Booking struct {
	Amount int64
	Parts  []Part
	Where  Place
	By     Means
	Fee    int64 // new
}

// Part is an element of a list in Booking.
type Part struct {
	Count  int64
	Weight int64 // new
}

// Place is a struct in Booking.
type Place struct {
	Room  int64
	Shelf int64 // new
}

// Means is an interface in Booking: how the amount was paid.
//
//shard:oneof
type Means interface{ isMeans() }

// The cases of Means. Check is new.
type (
	Cash  struct{ Coins int64 }
	Check struct{ Number int64 }
)

func (Cash) isMeans() {}

func (Check) isMeans() {}

// Purse is a sum of its events, for tests of events that yesterday's program does not know.
//
//shard:entity name=purse shards=1 durable snapshot=3
type Purse struct {
	ID      string `shard:"id"`
	Sum     int64  `shard:"state"`
	More    int64  `shard:"state"` // new: what events have that yesterday's program does not know
	Journal shard.Journal[Booking]
}

// Apply adds a booking to the sums.
func (l *Purse) Apply(b Booking) {
	l.Sum += b.Amount
	l.More += b.Fee + b.Where.Shelf
	for _, p := range b.Parts {
		l.More += p.Weight
	}
	if c, ok := b.By.(Check); ok {
		l.More += c.Number
	}
}

// Book records a booking.
func (l *Purse) Book(_ context.Context, b Booking) (int64, error) {
	l.Journal.Record(l, b)
	return l.Sum, nil
}

// Get returns the sums.
//
//shard:read
func (l *Purse) Get(context.Context) (sum, more int64, err error) { return l.Sum, l.More, nil }

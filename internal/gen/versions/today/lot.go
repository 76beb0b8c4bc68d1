package today

import (
	"context"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

// Lot can be found by its room, and is sold at a time.
//
//shard:entity name=lot shards=2 durable
type Lot struct {
	ID   string `shard:"id"`
	Room int32  `shard:"state,index"` // the index is new
	Sold bool   `shard:"state"`       // new
}

// Put moves the lot.
func (l *Lot) Put(_ context.Context, room int32) error {
	l.Room = room
	return nil
}

// Get returns the room.
//
//shard:read
func (l *Lot) Get(context.Context) (room int32, err error) { return l.Room, nil }

// Offer sells the lot after some time.
func (l *Lot) Offer(ctx context.Context, after time.Duration) error {
	return LotSelf(ctx, shard.In(after)).Sell(ctx)
}

// Sell is called by the reminder.
func (l *Lot) Sell(context.Context) error {
	l.Sold = true
	return nil
}

// IsSold reports whether the lot has been sold.
//
//shard:read
func (l *Lot) IsSold(context.Context) (sold bool, err error) { return l.Sold, nil }

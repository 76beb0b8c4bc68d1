package today

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
)

// Box has a new field, and so has the one in it.
type Box struct {
	Wide  int
	Lid   Lid
	Next  *Box
	Color string
}

// Lid has a new field.
type Lid struct {
	High   int
	Handle *Handle
}

// Handle is unknown to yesterday's.
type Handle struct{ Kind string }

// Slot has a new field.
type Slot struct {
	Free int
	Tint string
}

// Depot has more state than yesterday's.
//
//shard:entity name=depot shards=2
type Depot struct {
	Count int               `shard:"state"`
	Box   Box               `shard:"state"`
	Spare *Box              `shard:"state"`
	Slots []Slot            `shard:"state"`
	Named map[string]Slot   `shard:"state"`
	Note  string            `shard:"state"` // new
	Extra map[string]string `shard:"state"` // new
}

// Picture is all of it, to compare.
type Picture struct {
	Count int
	Box   Box
	Spare *Box
	Slots []Slot
	Named map[string]Slot
	Note  string
	Extra map[string]string
}

// Set replaces all.
func (d *Depot) Set(_ context.Context, p Picture) error {
	d.Count, d.Box, d.Spare, d.Slots, d.Named, d.Note, d.Extra = p.Count, p.Box, p.Spare, p.Slots, p.Named, p.Note, p.Extra
	return nil
}

// Get returns all.
func (d *Depot) Get(context.Context) (Picture, error) {
	return Picture{d.Count, d.Box, d.Spare, d.Slots, d.Named, d.Note, d.Extra}, nil
}

// Add counts.
func (d *Depot) Add(context.Context) (int, error) {
	d.Count++
	return d.Count, nil
}

// Discard sets the spare box, or the value that it points to, to nil.
func (d *Depot) Discard(_ context.Context, next bool) error {
	if next {
		d.Spare.Next = nil
	} else {
		d.Spare = nil
	}
	return nil
}

// Rest passivates it.
func (d *Depot) Rest(ctx context.Context) error { return shard.Passivate(ctx) }

// Forget ends it.
func (d *Depot) Forget(ctx context.Context) error { return shard.Forget(ctx) }

// Fail panics.
func (d *Depot) Fail(context.Context) error { panic("fail") }

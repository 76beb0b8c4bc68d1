package today

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
)

// Box is a part of Depot's state. Color is new, and so is a field of Lid.
type Box struct {
	Wide  int
	Lid   Lid
	Next  *Box
	Color string
}

// Lid is a part of Box. Handle is new.
type Lid struct {
	High   int
	Handle *Handle
}

// Handle is a new type, which package yesterday does not have.
type Handle struct{ Kind string }

// Slot is an element of Depot's lists and maps. Tint is new.
type Slot struct {
	Free int
	Tint string
}

// Depot has nested state, for tests that yesterday's program keeps the fields unknown to it.
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

// Picture is a depot's whole state, for comparisons.
type Picture struct {
	Count int
	Box   Box
	Spare *Box
	Slots []Slot
	Named map[string]Slot
	Note  string
	Extra map[string]string
}

// Set replaces the whole state.
func (d *Depot) Set(_ context.Context, p Picture) error {
	d.Count, d.Box, d.Spare, d.Slots, d.Named, d.Note, d.Extra = p.Count, p.Box, p.Spare, p.Slots, p.Named, p.Note, p.Extra
	return nil
}

// Get returns the whole state.
func (d *Depot) Get(context.Context) (Picture, error) {
	return Picture{d.Count, d.Box, d.Spare, d.Slots, d.Named, d.Note, d.Extra}, nil
}

// Add adds 1 to Count and returns it.
func (d *Depot) Add(context.Context) (int, error) {
	d.Count++
	return d.Count, nil
}

// Discard sets Spare to nil or, if next is true, Spare.Next.
func (d *Depot) Discard(_ context.Context, next bool) error {
	if next {
		d.Spare.Next = nil
	} else {
		d.Spare = nil
	}
	return nil
}

// Rest asks for passivation after this turn.
func (d *Depot) Rest(ctx context.Context) error { return shard.Passivate(ctx) }

// Forget ends the depot and its state.
func (d *Depot) Forget(ctx context.Context) error { return shard.Forget(ctx) }

// Fail panics.
func (d *Depot) Fail(context.Context) error { panic("fail") }

package yesterday

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// Box is a struct in Depot's state.
type Box struct {
	Wide int
	Lid  Lid
	Next *Box
}

// Lid is a struct in Box.
type Lid struct{ High int }

// Slot is an element of Depot's lists and maps.
type Slot struct{ Free int }

// Depot has nested state, of which package today has more.
//
//shard:entity name=depot shards=2
type Depot struct {
	Count int             `shard:"state"`
	Box   Box             `shard:"state"`
	Spare *Box            `shard:"state"`
	Slots []Slot          `shard:"state"`
	Named map[string]Slot `shard:"state"`
}

// Add adds 1 to Count, changes the boxes and returns the count.
func (d *Depot) Add(context.Context) (int, error) {
	d.Count++
	d.Box.Wide++
	if d.Spare != nil {
		d.Spare.Wide++
	}
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

// HostDepotAs hosts depots as a type of the package at path, as if both versions were the same
// program.
func HostDepotAs(n *shard.Node, path string, opts ...shard.HostOption) error {
	kind := depotKind()
	kind.Package = path
	return n.Host(codegen.Host{
		Kind: kind,
		New:  func() any { return &Depot{} },
		Dispatch: map[string]codegen.Method{
			"Add": dispatchDepotAdd, "Discard": dispatchDepotDiscard, "Fail": codegen.Run((*Depot).Fail),
			"Forget": codegen.Run((*Depot).Forget), "Rest": codegen.Run((*Depot).Rest),
		},
		AppendState: appendDepotState, DecodeState: decodeDepotState, StateFields: knownDepotState,
	}, opts...)
}

// HostBareDepotAs does what HostDepotAs does, for a still older program whose depot has no state.
func HostBareDepotAs(n *shard.Node, path string) error {
	kind := depotKind()
	kind.Package, kind.Stateful = path, false
	return n.Host(codegen.Host{
		Kind: kind,
		New:  func() any { return &Depot{} },
		Dispatch: map[string]codegen.Method{
			"Add": dispatchDepotAdd, "Discard": dispatchDepotDiscard, "Fail": codegen.Run((*Depot).Fail),
			"Forget": codegen.Run((*Depot).Forget), "Rest": codegen.Run((*Depot).Rest),
		},
	})
}

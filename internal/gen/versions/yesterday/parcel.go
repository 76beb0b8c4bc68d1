package yesterday

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// Parcel has an interface in its state of which package today knows more cases.
//
//shard:entity name=parcel shards=2
type Parcel struct {
	Count int        `shard:"state"`
	Wrap  Wrapping   `shard:"state"`
	Wraps []Wrapping `shard:"state"`
}

// Wrapping is an interface with cases.
//
//shard:oneof
type Wrapping interface{ isWrapping() }

// Paper is a case of Wrapping.
type Paper struct{ Color string }

func (Paper) isWrapping() {}

// Set replaces the wrapping.
func (p *Parcel) Set(_ context.Context, w Wrapping, more ...Wrapping) error {
	p.Wrap, p.Wraps = w, more
	return nil
}

// Get returns the number of its calls and the wrappings.
func (p *Parcel) Get(context.Context) (int, Wrapping, []Wrapping, error) {
	p.Count++
	return p.Count, p.Wrap, p.Wraps, nil
}

// HostParcelAs hosts parcels as a type of the package at path.
func HostParcelAs(n *shard.Node, path string) error {
	kind := parcelKind()
	kind.Package = path
	return n.Host(codegen.Host{
		Kind:        kind,
		New:         func() any { return &Parcel{} },
		Dispatch:    map[string]codegen.Method{"Get": dispatchParcelGet, "Set": dispatchParcelSet},
		AppendState: appendParcelState, DecodeState: decodeParcelState, StateFields: knownParcelState,
	})
}

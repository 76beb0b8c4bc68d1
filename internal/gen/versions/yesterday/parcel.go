package yesterday

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// Parcel has a wrapping of which today's knows more kinds.
//
//shard:entity name=parcel shards=2
type Parcel struct {
	Count int        `shard:"state"`
	Wrap  Wrapping   `shard:"state"`
	Wraps []Wrapping `shard:"state"`
}

// Wrapping is the packaging of a good.
//
//shard:oneof
type Wrapping interface{ isWrapping() }

// Paper is a wrapping.
type Paper struct{ Color string }

func (Paper) isWrapping() {}

// Set replaces the wrapping.
func (p *Parcel) Set(_ context.Context, w Wrapping, more ...Wrapping) error {
	p.Wrap, p.Wraps = w, more
	return nil
}

// Get counts the call and returns the wrapping.
func (p *Parcel) Get(context.Context) (int, Wrapping, []Wrapping, error) {
	p.Count++
	return p.Count, p.Wrap, p.Wraps, nil
}

// HostParcelAs is HostParcel, as a type of another package.
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

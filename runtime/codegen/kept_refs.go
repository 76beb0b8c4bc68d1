package codegen

import (
	"strings"
	"sync/atomic"
)

// keptRefs is the number of places of a KeptRefs, a power of two: 32 KiB.
const keptRefs = 1 << 11

// KeptRefs has references of one kind that were made twice with no other in between that has the same
// place, for callers that make one for each call: they then get the same one, which has its entity
// already, and leave no garbage. The zero value is empty. It is safe for concurrent use.
type KeptRefs struct{ places [keptRefs]keptRef }

type keptRef struct {
	hash atomic.Uint64       // of the id that was last looked for
	ref  atomic.Pointer[Ref] // nil: there is none, or it was looked for once
}

// get returns a reference to an id with that hash, without options.
func (k *KeptRefs) get(by Invoker, id string, hash uint64) *Ref {
	p := &k.places[hash%keptRefs]
	if p.hash.Load() != hash {
		p.hash.Store(hash)
		if p.ref.Load() != nil {
			p.ref.Store(nil)
		}
		return &Ref{Invoker: by, ID: id, Hash: hash}
	}
	if r := p.ref.Load(); r != nil && r.ID == id && r.Invoker == by {
		return r
	}
	r := &Ref{Invoker: by, ID: strings.Clone(id), Hash: hash} // id may be part of much more
	p.ref.Store(r)
	return r
}

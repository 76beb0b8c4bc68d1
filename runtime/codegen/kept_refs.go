package codegen

import (
	"strings"
	"sync/atomic"
	"unsafe"
)

// keptRefs is the number of places of a KeptRefs, a power of two. They take 32 KiB.
const keptRefs = 1 << 11

// KeptRefs has references of one kind that were made lately. A caller that makes a reference for
// each call gets the same one again: it has found its entity already, and no garbage is left. A
// reference to an id of more than 16 bytes is kept when it is made for the second time, with no
// other such one in between that has the same place. The zero value is empty. It is safe for
// concurrent use.
type KeptRefs struct{ places [keptRefs]keptRef }

type keptRef struct {
	ref  atomic.Pointer[Ref] // nil means there is none
	hash atomic.Uint64       // of the long id that was last looked for
}

// shortRef is a reference and the bytes of its id, in one piece of memory. It takes no more than a Ref
// and a copy of its id would take apart.
type shortRef struct {
	Ref
	id [maxShort]byte
}

const maxShort = 16

// get returns a reference to an id with that hash, without options.
func (k *KeptRefs) get(by Invoker, id string, hash uint64) *Ref {
	p := &k.places[hash%keptRefs]
	if r := p.ref.Load(); r != nil && r.Hash == hash && r.ID == id && r.Invoker == by {
		return r
	}
	if n := len(id); n <= maxShort { // id may be part of much more, so the reference has a copy
		s := &shortRef{Ref: Ref{Invoker: by, Hash: hash}}
		copy(s.id[:], id)
		s.ID = unsafe.String(&s.id[0], n)
		p.ref.Store(&s.Ref)
		return &s.Ref
	}
	if p.hash.Load() != hash {
		p.hash.Store(hash)
		return &Ref{Invoker: by, ID: id, Hash: hash}
	}
	r := &Ref{Invoker: by, ID: strings.Clone(id), Hash: hash}
	p.ref.Store(r)
	return r
}

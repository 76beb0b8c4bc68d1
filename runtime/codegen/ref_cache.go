package codegen

import (
	"strings"
	"sync/atomic"
)

// cachedRefs is the size of a RefCache, a power of two. Its pointers take 16 KiB.
const cachedRefs = 1 << 11

// A RefCache keeps recently made references of one kind. Without it, a caller that makes a
// reference for each call makes garbage and looks the entity up each time: a local call by id then
// takes 2.4 times as long. The zero value is empty. It is safe for concurrent use.
type RefCache struct {
	places [cachedRefs]atomic.Pointer[Ref]
}

func (c *RefCache) get(by Invoker, id string, hash uint64) *Ref {
	p := &c.places[hash%cachedRefs]
	if r := p.Load(); r != nil && r.Hash == hash && r.ID == id && r.Invoker == by {
		return r
	}
	r := &Ref{Invoker: by, ID: strings.Clone(id), Hash: hash} // id may share a large string's memory
	p.Store(r)
	return r
}

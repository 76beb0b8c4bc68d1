package workload

import (
	"context"
	"sync/atomic"
)

// A Poison has methods that do harm: one panics, and one never returns.
//
//shard:entity shards=16
type Poison struct {
	ID   string `shard:"id"`
	Node string `shard:"-"` // where it lives
}

// Where returns where it lives.
func (p *Poison) Where(context.Context) (node string, err error) { return p.Node, nil }

// Panic panics.
func (p *Poison) Panic(context.Context) error { panic("poisoned") }

// Loop never returns, not at the end of its context either.
func (p *Poison) Loop(context.Context) error {
	Spin()
	return nil
}

// Spin never returns and never rests: it takes a whole core from its process.
func Spin() {
	var rounds atomic.Uint64 // else there would be nothing to do
	for {
		rounds.Add(1)
	}
}

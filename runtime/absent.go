package shard

import (
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// homes are the other processes that routes lead to, each once.
func (pl *plane) homes() (all []transport.Address) {
	for _, k := range *pl.kinds.Load() {
		for i := range k.routes {
			r := &k.routes[i]
			r.Mu.Lock()
			a := r.Core.Owner
			r.Mu.Unlock()
			if !a.IsZero() && a != pl.self.Address && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

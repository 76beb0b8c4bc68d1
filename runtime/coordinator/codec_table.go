package coordinator

import (
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// maxParts bounds the parts of one difference.
const maxParts = 1 << 10

// tableToWire writes entries as runs of one home and one epoch.
func tableToWire(t Table) *wire.CoordinatorTable {
	w := &wire.CoordinatorTable{
		From: versionToWire(t.From), To: versionToWire(t.To), Full: t.Full, Part: t.Part, Parts: t.Parts,
	}
	for _, a := range t.Gone {
		w.Gone = append(w.Gone, addressToWire(a))
	}
	homes := map[transport.Address]uint32{{}: 0}
	var runs *wire.CoordinatorRuns
	var last placement.Entry
	for i, e := range t.Entries {
		home, ok := homes[e.Home]
		if !ok {
			home = uint32(len(homes))
			homes[e.Home] = home
			w.Homes = append(w.Homes, addressToWire(e.Home))
		}
		if i == 0 || e.Kind != last.Kind || e.Shard <= last.Shard {
			runs = &wire.CoordinatorRuns{Kind: e.Kind}
			w.Kinds = append(w.Kinds, runs)
			last = placement.Entry{}
		}
		if n := len(runs.Length); n > 0 && e.Shard == last.Shard+1 && e.Home == last.Home && e.Epoch == last.Epoch {
			runs.Length[n-1]++
		} else {
			runs.Skip = append(runs.Skip, e.Shard-last.Shard-1)
			runs.Length = append(runs.Length, 0)
			runs.Home = append(runs.Home, home)
			runs.Epoch = append(runs.Epoch, int64(e.Epoch-last.Epoch))
		}
		last = e
	}
	return w
}

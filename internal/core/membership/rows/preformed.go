package rows

import "github.com/shardgen/shardgen/internal/core/membership/gossip"

// Preformed returns the table of a cluster whose members have long been active, in the order of
// their ages. Their statuses and ages are set. It is for simulations.
func Preformed(list []Row) *Table {
	t := &Table{Version: uint64(len(list)), Rows: list}
	founder := list[0].Address
	for i := range list {
		list[i].Status, list[i].UpNumber, list[i].Founder = gossip.Up, uint32(i+1), founder
	}
	Sorted(t.Rows)
	return t
}

package placement_test

import (
	"fmt"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

func ExampleTable() {
	shard := placement.ShardID{Kind: "Stock", Shard: placement.ShardOf(0xab<<56, 256)}
	term := placement.Term{Number: 1, Incarnation: 7}

	var empty *placement.Table
	table, err := empty.Apply(placement.Diff{
		Full: true, To: placement.Version{Term: term, Seq: 1},
		Entries: []placement.Entry{{ShardID: shard, Home: transport.Address{Name: "web-1", Incarnation: 9}, Epoch: placement.MakeEpoch(1, 1)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(table.Lookup(shard))

	_, err = table.Apply(placement.Diff{From: placement.Version{Term: term, Seq: 4}, To: placement.Version{Term: term, Seq: 5}})
	fmt.Println(err)
	// Output:
	// Stock/427 → web-1#0000000000000009 at 1.1 true
	// apply table: the diff starts at another version: 1#0000000000000007/4, have 1#0000000000000007/1 (request the whole table)
}

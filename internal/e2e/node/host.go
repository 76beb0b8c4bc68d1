package node

import (
	"errors"

	"github.com/shardgen/shardgen/internal/e2e/witness"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// Host makes n host the workload, with w as the witness of its calls.
func Host(n *shard.Node, w *witness.Writer) error {
	see := testify(w)
	tallies := workload.NewTallyClient(n)
	target := func(id string) workload.RelayTargets {
		return workload.RelayTargets{Ask: tallies.API(id), Tell: tallies.Tell(id)}
	}
	return errors.Join(
		workload.HostClerk(n, func() *workload.Clerk { return &workload.Clerk{} }, shard.MaxMailboxCalls(100)),
		workload.HostPoison(n, func() *workload.Poison { return &workload.Poison{Node: n.Name()} },
			shard.MaxMailboxCalls(10), shard.Supervise(func(error) shard.SupervisorAction { return shard.ActionRestart })),
		workload.HostTally(n, func() *workload.Tally { return &workload.Tally{Node: n.Name(), Witness: see} }),
		workload.HostRelay(n, func() *workload.Relay { return &workload.Relay{Node: n.Name(), Tallies: target} }),
	)
}

// hostDurable makes n host the durable types.
func hostDurable(n *shard.Node) error {
	stocks := workload.NewStockClient(n)
	stock := func(id string) workload.StockTell { return stocks.Tell(id) }
	return errors.Join(
		workload.HostLedger(n, func() *workload.Ledger { return &workload.Ledger{Node: n.Name()} }),
		workload.HostTill(n, func() *workload.Till { return &workload.Till{Node: n.Name(), Stocks: stock} }),
		workload.HostStock(n, func() *workload.Stock { return &workload.Stock{} }),
	)
}

// testify records each run that it is given.
func testify(w *witness.Writer) func(entity, sender string, seq uint64) {
	return func(entity, sender string, seq uint64) {
		if err := w.Write(entity, sender, seq); err != nil {
			panic(err) // without a witness the run proves nothing
		}
	}
}

package workload

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
)

// A Till is durable as a [Ledger] is, and all that it does has an effect elsewhere: each sale is
// an event for followers, and is told to a [Stock] of the same id.
//
//shard:entity durable
type Till struct {
	ID      string `shard:"id"`
	Total   int64  `shard:"state"` // of all sales
	Journal shard.Journal[Sale]

	Node   string                 `shard:"-"` // where it lives
	Stocks func(string) StockTell `shard:"-"`
}

// A Sale is an event of a till.
type Sale struct {
	Total int64 // of the till, this sale included: sales of one are numbered so
}

// Apply makes the total that of the sale.
func (t *Till) Apply(s Sale) { t.Total = s.Total }

// Add sells n pieces, one by one. It returns the sum, and the node where the till lives.
func (t *Till) Add(ctx context.Context, n int64) (total int64, node string, err error) {
	stock := t.Stocks(t.ID)
	for range n {
		t.Journal.Record(t, Sale{Total: t.Total + 1})
		if err := stock.Sold(ctx, t.Total); err != nil {
			return t.Total, t.Node, err
		}
	}
	return t.Total, t.Node, nil
}

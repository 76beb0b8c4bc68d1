package workload

import "context"

// A Ledger is durable: changes that it has answered survive its process.
//
//shard:entity durable
type Ledger struct {
	ID    string `shard:"id"`
	Total int64  `shard:"state"` // of all added amounts

	Node string `shard:"-"` // where it lives
}

// Add adds n. It returns the sum, and the node where it lives.
func (l *Ledger) Add(_ context.Context, n int64) (total int64, node string, err error) {
	l.Total += n
	return l.Total, l.Node, nil
}

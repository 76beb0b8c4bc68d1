package workload

import "context"

// A Stock hears of each sale of its till, by a tell.
//
//shard:entity durable shards=16 tell=all
type Stock struct {
	ID     string `shard:"id"`
	Last   int64  `shard:"state"` // the sale that it heard of last
	Again  int64  `shard:"state"` // the number of sales that it had heard of before
	Missed int64  `shard:"state"` // the number of sales that it had not heard of when it heard of a later one
}

// Sold notes a sale.
func (s *Stock) Sold(_ context.Context, total int64) error {
	if total <= s.Last {
		s.Again++
		return nil
	}
	s.Missed += total - s.Last - 1
	s.Last = total
	return nil
}

// Report returns the stock's state.
//
//shard:read
func (s *Stock) Report(context.Context) (last, again, missed int64, err error) {
	return s.Last, s.Again, s.Missed, nil
}

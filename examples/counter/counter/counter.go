// Package counter has the smallest durable entity: a number with a name.
package counter

import "context"

//go:generate go tool shardgen

// A Counter adds up the numbers that it is given. It is in one process at a time and runs
// one call at a time, so it needs no lock.
//
//shard:entity durable
type Counter struct {
	ID    string `shard:"id"`    // its name
	Total int64  `shard:"state"` // of all that was added; survives the process
}

// Add adds n and returns the new total.
func (c *Counter) Add(_ context.Context, n int64) (total int64, err error) {
	c.Total += n
	return c.Total, nil
}

// Get returns the total.
//
//shard:read
func (c *Counter) Get(context.Context) (total int64, err error) { return c.Total, nil }

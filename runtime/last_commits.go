package shard

import (
	"context"
	"sync"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
)

// lastCommits are the commits of stop hooks that run because the node ends.
// It is safe for concurrent use.
type lastCommits struct {
	mu  sync.Mutex
	all []lastCommit
}

type lastCommit struct {
	tenure *durablehost.Tenure
	ticket durable.Ticket
	failed func(error)
}

func (p *lastCommits) add(tenure *durablehost.Tenure, ticket durable.Ticket, failed func(error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, lastCommit{tenure, ticket, failed})
}

// confirm waits until the log has the commits, or ctx ends.
func (p *lastCommits) confirm(ctx context.Context) {
	p.mu.Lock()
	all := p.all
	p.all = nil
	p.mu.Unlock()
	for _, one := range all {
		if err := one.tenure.Wait(ctx, one.ticket); err != nil {
			one.failed(err)
		}
	}
}

package node

import (
	"context"
	"sync"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
)

// LastCommits are the commits of stop hooks that run because the node ends.
// It is safe for concurrent use.
type LastCommits struct {
	mu  sync.Mutex
	all []lastCommit
}

type lastCommit struct {
	tenure *durablehost.Tenure
	ticket durable.Ticket
	failed func(error)
}

func (p *LastCommits) add(tenure *durablehost.Tenure, ticket durable.Ticket, failed func(error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, lastCommit{tenure, ticket, failed})
}

// Confirm waits until the log has the commits, or ctx ends.
func (p *LastCommits) Confirm(ctx context.Context) {
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

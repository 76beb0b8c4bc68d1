package main

import (
	"context"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// accountMember is a member of three.
type accountMember struct {
	*shard.Node
	ctx    context.Context
	client *fixture.AccountClient
}

func (m accountMember) call(id string) error {
	_, err := m.client.Ref(id).Add(m.ctx, 1)
	return err
}

func joinAccounts(ctx context.Context, s setup) (member, error) {
	return join(ctx, process.Config(s.url, s.cluster, "node"+strconv.Itoa(s.number)))
}

func joinDirect(ctx context.Context, s setup) (member, error) {
	return join(ctx, process.Direct(s.url, s.cluster, "node"+strconv.Itoa(s.number)))
}

// join returns when the node knows the other two.
func join(ctx context.Context, cfg shard.Config) (member, error) {
	node, err := process.Member(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return accountMember{node, ctx, fixture.NewAccountClient(node)}, await(ctx, func() bool {
		up := 0
		for _, m := range node.Cluster().Members {
			if m.Status == shard.MemberUp {
				up++
			}
		}
		return up == members
	})
}

// await returns when done reports true.
func await(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

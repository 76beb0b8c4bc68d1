package main

import (
	"context"

	"github.com/shardgen/shardgen/bench/limit"
)

// published are entities whose state is published by hand, with an acknowledgement.
type published struct {
	none
	*limit.Publishes
}

func (p published) add(_, i int) error { return p.Publish(i) }

func (p published) Close() error {
	p.Publishes.Close()
	return nil
}

func localPublishes(ctx context.Context, s setup, n int) (entities, error) {
	p, err := limit.NewPublishes(ctx, s.url, 1, n)
	if err != nil {
		return nil, err
	}
	return published{Publishes: p}, nil
}

package shard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
	memorystore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/stream"
	memorystream "github.com/shardgen/shardgen/stream/memory"
	"github.com/shardgen/shardgen/transport/memory"
)

func TestConsumeIsRefused(t *testing.T) {
	node := func(stored bool) *shard.Node {
		cfg := shard.Config{Cluster: "c", Name: "n", Transport: memory.NewBroker(memory.Options{}).Transport()}
		if stored {
			cfg.Store = memorystore.New().Client()
		}
		return shard.New(cfg)
	}
	fn := func(context.Context, shard.Message) error { return nil }
	for name, c := range map[string]struct {
		stored bool
		name   string
		source stream.Source
		fn     func(context.Context, shard.Message) error
		want   string
	}{
		"no store":      {false, "paid", memorystream.New(1), fn, "Config.Store is nil"},
		"no source":     {true, "paid", nil, fn, "is nil"},
		"no function":   {true, "paid", memorystream.New(1), nil, "is nil"},
		"no partitions": {true, "paid", memorystream.New(0), fn, "0 partitions"},
		"bad name":      {true, "a.b", memorystream.New(1), fn, "want only A-Z a-z 0-9 _ -"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node(c.stored)
			require.ErrorContains(t, shard.Consume(n, c.name, c.source, c.fn), c.want)
			require.ErrorContains(t, n.Start(testContext(t)), c.want)
		})
	}
	n := node(true)
	require.NoError(t, shard.Consume(n, "paid", memorystream.New(3), fn))
	require.ErrorContains(t, shard.Consume(n, "paid", memorystream.New(3), fn), "hosted already")
}

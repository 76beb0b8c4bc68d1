package process

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// Config returns the configuration of a process that belongs to a cluster.
func Config(url, cluster, name string) shard.Config {
	return shard.Config{
		Cluster: cluster, Name: name, Transport: natstransport.New(url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// Direct returns the same as Config, with direct lanes.
func Direct(url, cluster, name string) shard.Config {
	cfg := Config(url, cluster, name)
	cfg.Direct.Listen = "127.0.0.1:0" // a client only dials
	return cfg
}

// Member starts a node that hosts accounts.
func Member(ctx context.Context, cfg shard.Config, opts ...shard.HostOption) (*shard.Node, error) {
	node := shard.New(cfg)
	if err := fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{} }, append(opts, shard.IdleAfter(0))...); err != nil {
		return nil, err
	}
	return node, node.Start(ctx)
}

// AwaitDirect calls an entity until frames take a direct lane.
func AwaitDirect(ctx context.Context, conn *shard.Conn, ref fixture.AccountRef) error {
	for begin := time.Now(); conn.Counters()["frames sent directly"] < 10; {
		if time.Since(begin) > 10*time.Second {
			return errors.New("wait for a direct lane: fewer than 10 frames took one within 10s")
		}
		if _, err := ref.Echo(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/shardgen/shardgen/bench/limit"
	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

func spawn(url, role, cluster, name string) (c *process.Child, line string, err error) {
	return process.Spawn(context.Background(), "-role", role, "-url", url, "-cluster", cluster, "-name", name)
}

func serve(ctx context.Context, role, url, cluster, name string) error {
	switch role {
	case "host":
		node, err := process.Member(ctx, process.Config(url, cluster, name))
		if err != nil {
			return err
		}
		defer func() { _ = node.Close() }()
	case "wallets-r1", "wallets-r3":
		_, stop, err := walletNode(ctx, url, cluster, name, int(role[len(role)-1]-'0'))
		if err != nil {
			return err
		}
		defer stop()
	case "wallets-resting":
		_, stop, err := walletNode(ctx, url, cluster, name, 1, shard.IdleAfter(2*time.Second))
		if err != nil {
			return err
		}
		defer stop()
	case "answer":
		stop, err := limit.Serve(url)
		if err != nil {
			return err
		}
		defer stop()
	case "page": // it has printed its address
		stop, err := servePage(ctx, url, cluster)
		if err != nil {
			return err
		}
		defer stop()
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	case "first": // a fresh process that makes one call
		begin := time.Now()
		conn, err := shard.Dial(ctx, process.Config(url, cluster, name))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if _, err := fixture.NewAccountClient(conn).Ref("entity-1").Add(ctx, 1); err != nil {
			return err
		}
		fmt.Println(time.Since(begin).Nanoseconds())
		return nil
	default:
		return fmt.Errorf("role %q: want host, wallets-r1, wallets-r3, wallets-resting, answer, page or first", role)
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

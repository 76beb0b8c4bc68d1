package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
)

// durableMany shows what many durable entities cost the server, and how soon they answer after a
// restart.
func durableMany(ctx context.Context, s settings, _ string) error {
	folder, err := os.MkdirTemp("", "shardgen-table-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	server, err := natsproc.Run("-js", "-sd", folder)
	if err != nil {
		return err
	}
	defer func() { _ = server.Kill() }()
	node, stop, err := walletNode(ctx, server.URL(), "wallets", "n1", 1)
	if err != nil {
		return err
	}
	empty, err := resident(server.Pid())
	if err != nil {
		return err
	}
	begin := time.Now()
	refs := walletRefs(node, s.entities)
	if err := addToAll(ctx, refs); err != nil {
		return err
	}
	fmt.Printf("| %d durable entities made by 256 callers | %.0f/s | | |\n", s.entities, float64(s.entities)/time.Since(begin).Seconds())
	before, err := adders(ctx, refs, callers).run(s.time)
	if err != nil {
		return err
	}
	full, err := resident(server.Pid())
	if err != nil {
		return err
	}
	stop()
	disk, err := size(folder)
	if err != nil {
		return err
	}
	n := float64(s.entities)
	fmt.Printf("| memory of the server for an entity | %.0f B | | |\n| files of the server for an entity | %.0f B | | |\n", float64(full-empty)/n, float64(disk)/n)
	if err := errors.Join(server.Kill(), server.Start()); err != nil {
		return err
	}
	begin = time.Now()
	again, stopAgain, err := walletNode(ctx, server.URL(), "wallets", "n2", 1)
	if err != nil {
		return err
	}
	defer stopAgain()
	if _, err := bank.NewWalletClient(again).Ref(id(1)).Get(ctx); err != nil {
		return err
	}
	fmt.Printf("| first answer after the server and the node were started again, from the node's start | %.2f s | | ≤ 1 s |\n", time.Since(begin).Seconds())
	refs = walletRefs(again, s.entities)
	for {
		m, err := adders(ctx, refs, callers).run(s.time)
		if err != nil {
			return err
		}
		if m.PerSecond >= 0.99*before.PerSecond || time.Since(begin) > time.Minute {
			fmt.Printf("| until it has its throughput of before | %.1f s | %.0f/s before, %.0f/s then | |\n", time.Since(begin).Seconds(), before.PerSecond, m.PerSecond)
			return nil
		}
	}
}

func size(folder string) (sum int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
)

const (
	restingEntities = 100_000
	fullTail        = 3900 // commits of a shard, just too few for a checkpoint
)

// durableMoves shows how long a shard stops answering when the home of many passivated entities
// leaves, and when a process with full logs is killed.
func durableMoves(ctx context.Context, _ settings, _ string) error {
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
	return errors.Join(durableMove(ctx, server.URL()), durableDeath(ctx, server.URL()))
}

func durableMove(ctx context.Context, url string) error {
	first, _, err := spawn(url, "wallets-resting", "moves", "n1")
	if err != nil {
		return err
	}
	defer func() { _ = first.End() }()
	conn, err := shard.Dial(ctx, process.Config(url, "moves", "caller"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	client := bank.NewWalletClient(conn)
	var refs []bank.WalletRef
	for _, id := range inShard(0, restingEntities) {
		refs = append(refs, client.Ref(id))
	}
	if err := addToAll(ctx, refs); err != nil {
		return err
	}
	second, _, err := spawn(url, "wallets-resting", "moves", "n2")
	if err != nil {
		return err
	}
	defer func() { _ = second.End() }()
	time.Sleep(10 * time.Second) // the entities come to rest, and half of the shards move to the new member
	gaps := watchShards(ctx, client, 15*time.Second, func() error { return first.End() })
	empty := gaps[1:]
	show := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	moved := make([]float64, 0, len(empty))
	for _, g := range empty {
		if g > 3*time.Millisecond { // shards of the former process
			moved = append(moved, show(g))
		}
	}
	if len(moved) == 0 {
		return errors.New("measure a move: no shard has moved")
	}
	fmt.Printf("| longest gap between answers of a shard with %d durable entities at rest whose home leaves | %.1f ms | %d empty shards, median %.1f ms: **%.2f×** | at most 2× |\n",
		restingEntities, show(gaps[0]), len(moved), median(moved), show(gaps[0])/median(moved))
	return nil
}

func durableDeath(ctx context.Context, url string) error {
	var hosts []*process.Child
	for i := range 2 {
		c, _, err := spawn(url, "wallets-r1", "deaths", "n"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		hosts = append(hosts, c)
		defer func() { _ = c.End() }()
	}
	conn, err := shard.Dial(ctx, process.Config(url, "deaths", "caller"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	client := bank.NewWalletClient(conn)
	var all [][]bank.WalletRef
	for s := range uint32(walletShards) {
		var refs []bank.WalletRef
		for _, id := range inShard(s, 64) {
			refs = append(refs, client.Ref(id))
		}
		all = append(all, refs)
	}
	time.Sleep(5 * time.Second) // shards spread over both members
	var wg sync.WaitGroup
	errs := make(chan error, walletShards)
	for _, refs := range all {
		wg.Go(func() { errs <- fill(ctx, refs) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	gaps := watchShards(ctx, client, 15*time.Second, func() error { return hosts[0].Kill() })
	var longest time.Duration
	for _, g := range gaps {
		longest = max(longest, g)
	}
	fmt.Printf("| a process is killed whose shards have %d commits each in their logs: until the last of them answers | %.2f s | | ≤ 2.5 s |\n", fullTail, longest.Seconds())
	return nil
}

// fill makes fullTail commits to the one shard of refs.
func fill(ctx context.Context, refs []bank.WalletRef) (err error) {
	var wg sync.WaitGroup
	errs := make(chan error, len(refs))
	for _, r := range refs {
		wg.Go(func() {
			var err error
			for i := 0; i < fullTail/len(refs) && err == nil; i++ {
				_, err = r.Add(ctx, 1)
			}
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// watchShards calls one entity of each shard for d, and calls fault after a second. It returns each
// shard's longest time between answers.
func watchShards(ctx context.Context, client *bank.WalletClient, d time.Duration, fault func() error) []time.Duration {
	gaps := make([]time.Duration, walletShards)
	begin := time.Now()
	var wg sync.WaitGroup
	for s := range gaps {
		ref := client.Ref(inShard(uint32(s), 1)[0])
		wg.Go(func() {
			for last := time.Now(); time.Since(begin) < d; time.Sleep(5 * time.Millisecond) {
				if _, err := ref.Get(ctx); err == nil {
					now := time.Now()
					if now.Sub(begin) > 500*time.Millisecond { // the first answers activate
						gaps[s] = max(gaps[s], now.Sub(last))
					}
					last = now
				}
			}
		})
	}
	time.Sleep(time.Second)
	if err := fault(); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
	}
	wg.Wait()
	return gaps
}

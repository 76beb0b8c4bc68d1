package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// durableKilled shows how soon durable entities answer, after SIGKILL of node and server. Logs have
// the most commits possible before a checkpoint, and the callers are in another process.
func durableKilled(ctx context.Context, s settings, _ string) error {
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
	host, _, err := spawn(server.URL(), "wallets-r1", "wallets", "n1")
	if err != nil {
		return err
	}
	conn, err := shard.Dial(ctx, process.Config(server.URL(), "wallets", "caller"))
	if err != nil {
		return errors.Join(err, host.End())
	}
	err = addToAll(ctx, walletRefs(conn, s.entities))
	if err == nil {
		err = fillAll(ctx, bank.NewWalletClient(conn))
	}
	err = errors.Join(err, host.Kill(), conn.Close())
	_ = host.End() // it says that it was killed
	if err != nil {
		return err
	}
	tail, appends, err := tails(ctx, server.URL())
	if err != nil {
		return err
	}
	fmt.Printf("| %d durable entities, the node is killed: in logs, behind checkpoints | %.1f MiB in %d appends | | |\n", s.entities, float64(tail)/(1<<20), appends)
	if err := errors.Join(server.Kill(), server.Start()); err != nil {
		return err
	}
	begin := time.Now()
	again, stop, err := walletNode(ctx, server.URL(), "wallets", "n2", 1)
	if err != nil {
		return err
	}
	defer stop()
	client := bank.NewWalletClient(again)
	if _, err := client.Ref(id(1)).Get(ctx); err != nil {
		return err
	}
	fmt.Printf("| first answer, from the node's start | %.2f s | | ≤ 1 s |\n", time.Since(begin).Seconds())
	errs := make(chan error, walletShards)
	for n := range uint32(walletShards) {
		go func() {
			_, err := client.Ref(inShard(n, 1)[0]).Get(ctx)
			errs <- err
		}()
	}
	for range walletShards {
		err = errors.Join(err, <-errs)
	}
	fmt.Printf("| until all shards have answered, from the node's start | %.2f s | | |\n", time.Since(begin).Seconds())
	return err
}

func fillAll(ctx context.Context, client *bank.WalletClient) (err error) {
	var wg sync.WaitGroup
	errs := make(chan error, walletShards)
	for n := range uint32(walletShards) {
		var refs []bank.WalletRef
		for _, id := range inShard(n, 16) {
			refs = append(refs, client.Ref(id))
		}
		wg.Go(func() { errs <- fill(ctx, refs) })
	}
	wg.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// tails returns the total size and the number of the appends after the logs' last checkpoints.
func tails(ctx context.Context, url string) (bytes, appends int, err error) {
	s, err := natsstore.Open(ctx, url, natsstore.Config{Name: "wallets", NoCreate: true})
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	for n := range walletShards {
		at := store.Shard{Type: "Wallet", Number: walletShards + n}
		head, err := s.Shards().Head(ctx, at)
		if err != nil {
			return 0, 0, err
		}
		last, err := s.Last(ctx, at)
		if err != nil {
			return 0, 0, err
		}
		log, err := s.Shards().Read(ctx, at, head.Since, last)
		if err != nil {
			return 0, 0, err
		}
		for _, a := range log {
			bytes += len(a.Data)
		}
		appends += len(log)
	}
	return bytes, appends, nil
}

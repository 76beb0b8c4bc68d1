package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/fixture"
	"github.com/shardgen/shardgen/internal/fixture/vault"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/placement"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// vaultNode starts a node that hosts vaults and accounts.
func vaultNode(ctx context.Context, url, cluster, name string, replicas int, options ...shard.HostOption) (node *shard.Node, stop func(), err error) {
	backend, err := natsstore.Open(ctx, url, natsstore.Config{Name: cluster, Replicas: replicas})
	if err != nil {
		return nil, nil, err
	}
	cfg := process.Config(url, cluster, name)
	cfg.Store = backend
	node = shard.New(cfg)
	err = errors.Join(
		vault.HostVault(node, func() *vault.Vault { return &vault.Vault{} }, append([]shard.HostOption{shard.IdleAfter(0)}, options...)...),
		fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{} }, shard.IdleAfter(0)),
	)
	if err == nil {
		err = node.Start(ctx)
	}
	if err != nil {
		backend.Close()
		return nil, nil, err
	}
	return node, func() {
		leave, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = node.Shutdown(leave)
		backend.Close()
	}, nil
}

// vaults returns references to durable entities, all called once.
func vaults(ctx context.Context, c shard.Caller) ([]vault.VaultRef, error) {
	refs := vaultRefs(c, entities)
	return refs, addToAll(ctx, refs)
}

// addToAll calls each entity once, from many goroutines.
func addToAll(ctx context.Context, refs []vault.VaultRef) (err error) {
	errs := make(chan error, callers)
	for w := range callers {
		go func() {
			var err error
			for i := w; i < len(refs) && err == nil; i += callers {
				_, err = refs[i].Add(ctx, 1)
			}
			errs <- err
		}()
	}
	for range callers {
		err = errors.Join(err, <-errs)
	}
	return err
}

func vaultRefs(c shard.Caller, n int) []vault.VaultRef {
	client := vault.NewVaultClient(c)
	refs := make([]vault.VaultRef, n)
	for i := range refs {
		refs[i] = client.Ref(id(i))
	}
	return refs
}

// vaultShards is the number of shards of type Vault.
const vaultShards = 64

// inShard returns n ids of entities of one shard.
func inShard(number uint32, n int) (ids []string) {
	for i := 0; len(ids) < n; i++ {
		id := "in-" + strconv.Itoa(i)
		if placement.ShardOf(xxhash.Sum64String(id), vaultShards) == vaultShards+number {
			ids = append(ids, id)
		}
	}
	return ids
}

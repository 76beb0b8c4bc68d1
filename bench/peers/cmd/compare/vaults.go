package main

import (
	"context"

	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/fixture/vault"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// vaults are durable entities of this project.
type vaults struct {
	none
	closers
	ctx  context.Context
	refs []vault.VaultRef
}

func (v *vaults) add(_, i int) error {
	_, err := v.refs[i].Add(v.ctx, 1)
	return err
}

func (v *vaults) told(_, i int) (int64, error) { return v.refs[i].Get(v.ctx) }
func (v *vaults) Close() error                 { return v.closers.Close() }

func localVaults(ctx context.Context, s setup, n int) (entities, error) {
	backend, err := natsstore.Open(ctx, s.url, natsstore.Config{Name: s.cluster, Replicas: 1})
	if err != nil {
		return nil, err
	}
	cfg := process.Config(s.url, s.cluster, "node")
	cfg.Store = backend
	node := shard.New(cfg)
	v := &vaults{closers: closers{closing(backend.Close), node}, ctx: ctx}
	if err := vault.HostVault(node, func() *vault.Vault { return &vault.Vault{} }, shard.IdleAfter(0)); err != nil {
		return nil, err
	}
	if err := node.Start(ctx); err != nil {
		return nil, err
	}
	client := vault.NewVaultClient(node)
	for i := range n {
		v.refs = append(v.refs, client.Ref(id(i)))
	}
	_, err = total(v, n)
	return v, err
}

// vaultReads are vaults whose calls only read.
type vaultReads struct{ *vaults }

func (v vaultReads) add(_, i int) error {
	_, err := v.refs[i].Get(v.ctx)
	return err
}

func localReads(ctx context.Context, s setup, n int) (entities, error) {
	es, err := localVaults(ctx, s, n)
	if err != nil {
		return nil, err
	}
	return vaultReads{es.(*vaults)}, nil
}

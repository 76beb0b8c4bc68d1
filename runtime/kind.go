package shard

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// kind is one entity type at this process: its routes, and its host if this process
// hosts it.
type kind struct {
	driver *driver
	desc   codegen.Kind
	name   []byte
	shards uint32
	shift  uint8                  // of a hash, so that the bits remain that name its shard
	err    error                  // why calls of it cannot work; nil if they can
	errors func() []codegen.Error // the declared errors
	routes []route
	refs   atomic.Pointer[codegen.RefCache] // nil until a reference is made
	// Set before Start. host is nil if the kind is only called.
	host    *host
	encodes bool // calls are encoded at this process too, because they commit or are intercepted
}

func newKind(drv *driver, desc codegen.Kind) *kind {
	k := &kind{driver: drv, desc: desc, name: []byte(desc.Name), err: checkKind(&desc), encodes: desc.Durable}
	k.errors = sync.OnceValue(func() []codegen.Error { return codegen.Errors(desc.Errors) })
	k.shards = uint32(desc.Shards)
	if k.err != nil {
		return k
	}
	k.routes, k.shift = make([]route, k.shards), uint8(64-bits.TrailingZeros32(k.shards))
	for i := range k.routes {
		k.routes[i].init(k, k.shards+uint32(i))
	}
	return k
}

// route returns the route of a shard number, or nil if the kind has no such shard.
func (k *kind) route(shard uint32) *route {
	if shard < k.shards || shard-k.shards >= uint32(len(k.routes)) {
		return nil
	}
	return &k.routes[shard-k.shards]
}

// hosted returns the shard with that number at this process, or nil if the kind is not hosted here or
// has no such shard.
func (k *kind) hosted(shard uint32) *hostedShard {
	if k.host == nil || shard < k.shards || shard-k.shards >= uint32(len(k.host.shards)) {
		return nil
	}
	return &k.host.shards[shard-k.shards]
}

// shardOf returns the number of an entity's shard, or why the id is bad.
func (k *kind) shardOf(id string) (uint32, error) {
	hash, err := invoker{k}.Hash(id)
	return placement.ShardOf(hash, k.shards), err
}

// routeOf returns the route of an entity, by the hash of its reference: that of the shard that
// placement.ShardOf finds.
func (k *kind) routeOf(hash uint64) *route { return &k.routes[hash>>k.shift] }

// adopt follows the table from an older one, if it has the kind with as many shards.
func (k *kind) adopt(old, t *placement.Table) {
	part := t.Type(k.desc.Name)
	if part == nil || k.err != nil {
		return
	}
	if part.Shards() != k.shards {
		return // invoker.giveUp reports this when a call runs out of time
	}
	k.driver.data.Follow(old, t, k.desc.Name)
}

// Found sets the home of a singleton: in its route, and in its shard at this process unless hosts is
// set. With hosts this process still has a part of the instance, and knows better where the shard is.
func (k *kind) Found(node transport.Address, epoch placement.Epoch, hosts bool) {
	if k.host != nil && !hosts {
		k.host.shards[0].Place(node, epoch, 0)
	}
	k.routes[0].Found(node, epoch)
}

// durableShards is the default number of shards of a durable type. Commits of one shard
// are appended together, so few shards allow more commits a second than many.
const durableShards = 64

// checkKind sets the default number of shards of a kind's description, and returns why the
// description cannot be used.
func checkKind(k *codegen.Kind) error {
	if k.Shards == 0 {
		k.Shards = placement.DefaultShards
		if k.Durable {
			k.Shards = durableShards
		}
	}
	var errs []error
	if err := transport.CheckName("type", k.Name); err != nil {
		errs = append(errs, err)
	}
	if k.Singleton && k.Shards != 1 {
		errs = append(errs, fmt.Errorf("type %s: a singleton of %d shards (run go generate again?)", k.Name, k.Shards))
	} else if err := placement.CheckShards(k.Shards); err != nil {
		errs = append(errs, fmt.Errorf("type %s: %w", k.Name, err))
	}
	return errors.Join(errs...)
}

// locate returns the number of an entity's shard.
func (k *kind) locate(id string) (shard uint32, err error) {
	hash, err := invoker{k}.Hash(id)
	if err != nil {
		return 0, err
	}
	return placement.ShardOf(hash, k.shards), nil
}

// ownHash calls the user's shard function twice, because two different results for one
// id would give one entity two homes.
func (k *kind) ownHash(id string) (hash uint64, err error) {
	name := k.desc.HashName
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the shard function %s of %s panicked for id %s: %v (it must accept every id)", name, k.desc.Name, clip(id), r)
		}
	}()
	for i := range 2 {
		h, err := k.desc.Hash(id)
		switch {
		case err != nil:
			return 0, fmt.Errorf("the shard function %s of %s refused id %s: %w", name, k.desc.Name, clip(id), err)
		case i > 0 && h != hash:
			return 0, fmt.Errorf("the shard function %s of %s has two results for id %s: %#x and %#x (it must depend on the id alone)", name, k.desc.Name, clip(id), hash, h)
		}
		hash = h
	}
	return hash, nil
}

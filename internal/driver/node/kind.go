package node

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/driver/counting"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// Kind is one entity type at this process, with its routes. If this process hosts the type, the
// Kind also has the type's Host.
type Kind struct {
	Driver *Driver
	Desc   codegen.Kind
	name   []byte
	Shards uint32
	shift  uint8                  // how far to shift a hash so that only the bits of the shard number remain
	Err    error                  // why the type cannot be called; nil if it can
	errors func() []codegen.Error // returns the declared errors
	routes []Route
	refs   atomic.Pointer[codegen.RefCache] // nil until a reference is made
	Counts *counting.Type
	// Host is nil if the kind is only called. Host and Encodes are set before Start.
	Host    *Host
	Pool    *Pool // of a pool that can be called; else nil
	Encodes bool  // local calls are encoded too, because they commit or are intercepted
}

func newKind(drv *Driver, desc codegen.Kind) *Kind {
	k := &Kind{Driver: drv, Desc: desc, name: []byte(desc.Name), Err: checkKind(&desc), Encodes: desc.Durable, Counts: counting.New(desc.Name, desc.Methods)}
	k.errors = sync.OnceValue(func() []codegen.Error { return codegen.Errors(desc.Errors) })
	k.Shards = uint32(desc.Shards)
	if k.Err != nil {
		return k
	}
	k.routes, k.shift = make([]Route, k.Shards), uint8(64-bits.TrailingZeros32(k.Shards))
	for i := range k.routes {
		k.routes[i].init(k, k.Shards+uint32(i))
	}
	if desc.Pool {
		k.Pool = newPool(k)
	}
	return k
}

// Route returns the route of the shard with that number, or nil if the kind has no such shard.
func (k *Kind) Route(shard uint32) *Route {
	if shard < k.Shards || shard-k.Shards >= uint32(len(k.routes)) {
		return nil
	}
	return &k.routes[shard-k.Shards]
}

// Hosted returns the shard with that number at this process, or nil if the kind is not hosted here or
// has no such shard.
func (k *Kind) Hosted(shard uint32) *HostedShard {
	if k.Host == nil || shard < k.Shards || shard-k.Shards >= uint32(len(k.Host.Shards)) {
		return nil
	}
	return &k.Host.Shards[shard-k.Shards]
}

// ShardOf returns the number of an entity's shard, or an error if the id is invalid.
func (k *Kind) ShardOf(id string) (uint32, error) {
	hash, err := invoker{k}.Hash(id)
	return placement.ShardOf(hash, k.Shards), err
}

func (k *Kind) routeOf(hash uint64) *Route { return &k.routes[hash>>k.shift] }

// adopt applies the changes between two shard tables. It does nothing if t gives the kind another
// number of shards.
func (k *Kind) adopt(old, t *placement.Table) {
	part := t.Type(k.Desc.Name)
	if part == nil || k.Err != nil {
		return
	}
	if part.Shards() != k.Shards {
		return // invoker.giveUp reports this when a call runs out of time
	}
	k.Driver.Data.Follow(old, t, k.Desc.Name)
	if k.Pool != nil {
		k.Pool.follow(part)
	}
}

// Found records the home of a singleton: in the singleton's route and, unless hosts is set, in its
// shard at this process. hosts means that this process still holds the instance. The shard then
// knows the home better than the caller of Found does.
func (k *Kind) Found(node transport.Address, epoch placement.Epoch, hosts bool) {
	if k.Host != nil && !hosts {
		k.Host.Shards[0].Place(node, epoch, 0)
	}
	k.routes[0].Found(node, epoch)
}

// durableShards is the default number of shards of a durable type. Fewer shards allow more commits
// a second, because a shard's commits are appended together.
const durableShards = 64

// checkKind sets the default number of shards, and checks a kind's description.
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
		errs = append(errs, fmt.Errorf("type %s: a singleton has one shard, not %d (run go generate again?)", k.Name, k.Shards))
	} else if k.Pool && (k.Singleton || k.Durable || k.Stateful || k.Hash == nil) {
		errs = append(errs, fmt.Errorf("type %s: incomplete description of a pool (run go generate again?)", k.Name))
	} else if err := placement.CheckShards(k.Shards); err != nil {
		errs = append(errs, fmt.Errorf("type %s: %w", k.Name, err))
	}
	return errors.Join(errs...)
}

func (k *Kind) locate(id string) (shard uint32, err error) {
	hash, err := invoker{k}.Hash(id)
	if err != nil {
		return 0, err
	}
	return placement.ShardOf(hash, k.Shards), nil
}

// ownHash calls the user's shard function twice, and fails if the results differ: an entity would
// then have two homes.
func (k *Kind) ownHash(id string) (hash uint64, err error) {
	name := k.Desc.HashName
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the shard function %s of %s panicked for id %s: %v (it must accept every id)", name, k.Desc.Name, clip(id), r)
		}
	}()
	for i := range 2 {
		h, err := k.Desc.Hash(id)
		switch {
		case err != nil:
			return 0, fmt.Errorf("the shard function %s of %s refused id %s: %w", name, k.Desc.Name, clip(id), err)
		case i > 0 && h != hash:
			return 0, fmt.Errorf("the shard function %s of %s has two results for id %s: %#x and %#x (it must depend on the id alone)", name, k.Desc.Name, clip(id), hash, h)
		}
		hash = h
	}
	return hash, nil
}

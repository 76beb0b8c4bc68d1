package codegen

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"strconv"
)

// A PoolChoice says which instance of a pool a call goes to.
type PoolChoice uint8

// The ways of choosing an instance for each call.
const (
	PoolAny  PoolChoice = iota // an idle instance at this process, or else the less busy of two random ones
	PoolNear                   // an instance at this process, or as PoolAny if there is none
	PoolKey                    // the same instance for equal keys, while the number of instances stays
)

// AnyInstance is the id of a [Raw] call whose instance is chosen as by [PoolAny].
const AnyInstance = "any"

// A PoolInvoker is an Invoker of a pool.
type PoolInvoker interface {
	Invoker
	// Choose returns the Invoker of references that choose an instance for each call. key is only
	// for PoolKey.
	Choose(choice PoolChoice, key string) Invoker
	// Instances returns the number of instances. It waits up to Config.CallTimeout for a first
	// instance, and returns 0 if none comes.
	Instances() int
}

// PoolHash returns the shard function of a pool with that number of shards, a power of two. It gives
// each instance its own shard.
func PoolHash(shards int) func(id string) (uint64, error) {
	return func(id string) (uint64, error) {
		i, err := strconv.Atoi(id)
		if err != nil || i < 0 || i >= shards || strconv.Itoa(i) != id {
			return 0, fmt.Errorf("instance %.40q: want a number from 0 to %d", id, shards-1)
		}
		return uint64(i) << (64 - (bits.Len(uint(shards)) - 1)), nil
	}
}

var errNotPool = errors.New("the caller cannot choose an instance of a pool (use a Node or a Conn)")

// NewPoolRef returns a reference to a pool that chooses an instance for each call. If err is not nil,
// every call fails with it.
func NewPoolRef(by Invoker, choice PoolChoice, key string, opts ...CallOption) *Ref {
	pool, ok := by.(PoolInvoker)
	if !ok {
		return NewRef(by, AnyInstance, errNotPool, opts...)
	}
	return NewRef(pool.Choose(choice, key), AnyInstance, nil, opts...)
}

// NewInstanceRef returns a reference to instance i of a pool.
func NewInstanceRef(by Invoker, i int, opts ...CallOption) *Ref {
	return NewRef(by, strconv.Itoa(i), nil, opts...)
}

// PoolRefs yields references to the instances that a pool has when the loop begins.
func PoolRefs(by Invoker, opts ...CallOption) iter.Seq2[int, *Ref] {
	return func(yield func(int, *Ref) bool) {
		pool, ok := by.(PoolInvoker)
		if !ok {
			return
		}
		for i := range pool.Instances() {
			if !yield(i, NewInstanceRef(by, i, opts...)) {
				return
			}
		}
	}
}

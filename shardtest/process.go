package shardtest

import (
	shard "github.com/shardgen/shardgen/runtime"
	memorystore "github.com/shardgen/shardgen/store/memory"
)

// A process is one life of a node.
type process struct {
	node  *shard.Node
	store *memorystore.Client
}

// running reports whether the node has not ended. P may be nil.
func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.node.Done():
		return false
	default:
		return true
	}
}

package shard

import (
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/runtime/singleton"
)

// Causes of errors about singletons; test with errors.Is.
var (
	// ErrNoInstance is singleton.ErrNoInstance: no instance was found in time. Nothing ran.
	ErrNoInstance = singleton.ErrNoInstance
	// ErrBufferFull means that more than Config.SingletonBuffer calls waited at this process for a
	// singleton's instance, and this call was the oldest. Nothing ran.
	ErrBufferFull = node.ErrBufferFull
	// ErrNotSingleton is singleton.ErrNotSingleton: the function or option is only for singletons.
	ErrNotSingleton = singleton.ErrNotSingleton
)

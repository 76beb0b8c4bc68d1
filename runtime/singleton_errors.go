package shard

import (
	"errors"

	"github.com/shardgen/shardgen/runtime/singleton"
)

// Causes of errors about singletons; test with errors.Is.
var (
	// ErrNoInstance is singleton.ErrNoInstance: no instance was found in time. Nothing ran.
	ErrNoInstance = singleton.ErrNoInstance
	// ErrBufferFull means that more than Config.SingletonBuffer calls waited at this process for a
	// singleton's instance, and this call was the oldest. Nothing ran.
	ErrBufferFull = errors.New("dropped from a full buffer")
	// ErrNotSingleton is singleton.ErrNotSingleton: the function or option is only for singletons.
	ErrNotSingleton = singleton.ErrNotSingleton
)

// errNoLease means that the singleton's lease has ended.
var errNoLease = errors.New("the singleton's lease is over (retry: its next instance takes the call)")

// errSingletonStays is the error of Passivate and Forget in a singleton: they would
// leave its tasks running beside those of the next instance.
var errSingletonStays = errors.New("a singleton lives as long as its node may run it (return an error from a task to start it again)")

package shard

import "errors"

// Causes of errors about singletons; test with errors.Is.
var (
	// ErrNoInstance: no instance of the singleton was found in time; the error's text has
	// the reason. Nothing ran.
	ErrNoInstance = errors.New("no instance of the singleton runs")
	// ErrBufferFull: more than Config.SingletonBuffer calls waited at this process for a
	// singleton's instance, and this call was the oldest. Nothing ran.
	ErrBufferFull = errors.New("dropped from a full buffer")
	// ErrNotSingleton: the function or option is only for singletons.
	ErrNotSingleton = errors.New("not a singleton's turn")
)

// errNoLease: the singleton's lease is over.
var errNoLease = errors.New("the singleton's lease is over (retry: its next instance takes the call)")

// errSingletonStays: passivating or forgetting an instance would leave its tasks
// running beside those of the next one.
var errSingletonStays = errors.New("a singleton lives as long as its node may run it (return an error from a task to have it begin anew)")

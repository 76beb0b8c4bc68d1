package node

import "errors"

// errNoLease means that the singleton's lease has ended.
var errNoLease = errors.New("the singleton's lease is over (retry: its next instance takes the call)")

// errSingletonStays is the error of Passivate and Forget in a singleton: they would
// leave its tasks running beside those of the next instance.
var errSingletonStays = errors.New("a singleton lives as long as its node may run it (return an error from a task to start it again)")

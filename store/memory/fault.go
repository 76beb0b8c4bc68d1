package memory

import "time"

// An Op is one operation that may be met by a fault.
type Op struct {
	Name  string // as Op in store.Error
	Key   string // as in store.Error
	Write bool   // it changes something, renewing and releasing leases too
}

// A Fault is a failure of an operation. The zero value does nothing.
type Fault struct {
	// Delay passes before the operation reaches the server. Below 0 is 0.
	Delay time.Duration
	// Answer passes before the answer comes, after the server has done its part.
	// Below 0 is 0.
	Answer time.Duration
	// Loss is the lost part.
	Loss Loss
	// Late is how much later a write arrives that meets LoseTouch. Below 0 is 0.
	Late time.Duration
	// Busy has the server refuse a write to a shard with store.ErrBusy.
	Busy bool
	// Follower has a read of a shard answered by the replica that Server.Lag holds
	// back, if it is as new as the read asks for.
	Follower bool
}

// A Loss is the part of an operation that gets lost.
type Loss uint8

// The losses.
const (
	// LoseNothing: it is done and answered.
	LoseNothing Loss = iota
	// LoseConnection: nothing is sent; the answer is store.ErrUnavailable.
	LoseConnection
	// LoseRequest: it never reaches the server, and the caller cannot tell: a
	// write is answered by store.ErrUncertain, a read by store.ErrUnavailable.
	LoseRequest
	// LoseAnswer: it is done, and the caller is answered as by LoseRequest.
	LoseAnswer
	// LoseTouch: the caller is answered as by LoseRequest, and a write is done
	// later, when Fault.Late has passed, unless the server stops before. A read is
	// never done.
	LoseTouch
	// LoseHalf: of a Put of a shard's records the first half of the changes is done,
	// of anything else nothing; the caller is answered as by LoseRequest.
	LoseHalf
)

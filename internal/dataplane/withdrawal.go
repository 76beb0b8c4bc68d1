package dataplane

// A Withdrawal is how far a call had come when its caller gave it up.
type Withdrawal uint8

// The Withdrawals.
const (
	Unsent      Withdrawal = iota // it waited for a home
	Queued                        // it waited for its turn at this process
	Undelivered                   // it was sent, and certainly did not arrive
	BegunHere                     // its turn at this process had begun, or was over
	Delivered                     // it was sent, and may have arrived
)

// MayHaveRun reports whether the method may have run, or may run still.
func (w Withdrawal) MayHaveRun() bool { return w >= BegunHere }

package core

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// A LeaseRequest asks the driver to take the lease that decides splits, and to
// answer with [LeaseAnswer]. The lease is named after the cluster and its
// Founder, its holder is this node, and it is never renewed.
type LeaseRequest struct {
	Seq     uint64            // of this machine's requests
	Founder transport.Address // of the cluster that splits
	TTL     time.Duration     // for how long nobody else may take it
	// Over is a holding that the lease may be taken over from; zero: none.
	Over uint64
	// Within is how long the driver may try.
	Within time.Duration
}

// Output has the driver's duties, in this order.
type Output struct {
	Send   []Envelope // messages, in this order
	Events []Event    // the changes, in order
	// Changed: [Machine.View] has changed.
	Changed bool
	// LeaseChanged: [Machine.Lease] has changed; Lease is the present lease.
	LeaseChanged bool
	Lease        time.Time // until when turns may run
	// Probe: ask the broker whether any Up member listens; if none does, Vacant
	// follows. Only with Config.ProbeVacancy.
	Probe bool
	// TakeLease: take the lease that decides a split. Only with
	// DowningLeaseMajority.
	TakeLease *LeaseRequest
	// Refused: the Receive of this step was not obeyed, and why.
	Refused Refusal
	// WakeAt is when the next Step is due, if nothing happens before. Zero: never,
	// before Start and when the machine has ended.
	WakeAt time.Time
}

// An Envelope is a message to one node, or to every node of the cluster and
// every joiner, this one included.
type Envelope struct {
	To        transport.Address // one node; zero for a broadcast
	Broadcast bool              // To is zero
	Message   message.Message   // what is sent
}

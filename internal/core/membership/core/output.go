package core

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// A LeaseRequest asks the driver to take the lease that decides splits, and to answer with
// [LeaseAnswer]. The lease is named after the cluster and its Founder. This node becomes the
// holder, and never renews the lease.
type LeaseRequest struct {
	Seq     uint64            // of this machine's requests
	Founder transport.Address // of the cluster that splits
	TTL     time.Duration     // no other node may take the lease for this time
	// Over is the token of an earlier holding that this one may replace; 0 means none.
	Over uint64
	// Within bounds the time of the driver's attempts.
	Within time.Duration
}

// A FoundingRequest asks the driver to read the store's record of the cluster's founding, or to
// write it, and to answer with [FoundingAnswer].
type FoundingRequest struct {
	Number   uint64 // of this machine's requests
	Write    bool
	Founding Founding      // to be written
	Over     uint64        // the revision that the record must have; 0 means there must be none
	Within   time.Duration // bounds the driver's attempt
}

// A Question asks the driver to find, through a connection to another server of the broker, whether
// anybody listens for a member there, and to answer with [Asked]. If it cannot, the driver does not
// answer.
type Question struct {
	Peer   transport.Address
	Server message.ServerMark // the running instance to ask, and no other
	At     time.Time          // of the question
}

// Output is the driver's work after a step. The driver does it in the order of the fields.
type Output struct {
	Send   []Envelope // messages, in this order
	Events []Event    // the changes of the view and of this node, in order
	// Changed means that [Machine.View] has changed.
	Changed bool
	// LeaseChanged means that [Machine.Lease] has changed; Lease is the present
	// lease.
	LeaseChanged bool
	Lease        time.Time // until when turns may run
	// Probe asks the driver to ask the broker whether any Up member listens. If
	// none does, the driver answers with Vacant. Only with Config.ProbeVacancy.
	Probe bool
	// Unclaim asks the driver to have the broker stop directing probes to this node. Claim, unless
	// 0, asks it to have probes directed to this node, and to answer with a Claimed of that number.
	// Both are set only with Config.ProbeVacancy.
	Unclaim bool
	Claim   uint64
	// Founding asks the driver to read or write the record of the founding. Only with
	// Config.Founding.
	Founding *FoundingRequest
	// TakeLease asks the driver to take the lease that decides a split. Only with
	// DowningLeaseMajority.
	TakeLease *LeaseRequest
	// ReadTable, WriteTable and WriteAlive ask the driver to read or write the table. Only with
	// Config.Table; at most one of each is on its way.
	ReadTable  *TableRead
	WriteTable *TableWrite
	WriteAlive *TableAlive
	// Ask has questions to other servers about members that this node's server does not know.
	Ask []Question
	// Move asks the driver to connect to another server of the broker, if there is one. Only with
	// Config.Table.
	Move bool
	// Refused is the reason why the Receive of this step was refused, or NotRefused.
	Refused Refusal
	// WakeAt is when the next Step is due if no input comes before. It is zero before Start and
	// after the machine has ended: no Step is due.
	WakeAt time.Time
}

// An Envelope is a message to one node, or a broadcast to all nodes and joiners of the cluster,
// including this node.
type Envelope struct {
	To        transport.Address // one node; zero for a broadcast
	Broadcast bool              // To is zero
	Message   message.Message   // the message to send
}

package agree

import "github.com/shardgen/shardgen/transport"

// A Reason says why a connection ends.
type Reason uint8

// The reasons why a connection ends. Those up to Revoked are faults: see IsFault.
const (
	Broken   Reason = iota // an error of the connection, or the peer closed it
	Stalled                // the peer acknowledged nothing for stream.RetryAfter
	Crowded                // the peer reads too slowly, so too many bytes wait to be written
	Forged                 // a frame named another sender, or the bytes were not a frame
	Revoked                // the peer was not heard through the broker for agree.HeardFor
	Unused                 // it carried no frame for UnusedFor
	Replaced               // the peer has offered a new connection
	Removed                // the peer left or was removed
	Over                   // this process is ending
	Reasons                // the number of reasons
)

var reasonNames = [Reasons]string{
	"broken or closed by the peer", "stalled", "crowded", "forged frame", "not heard through the broker", "unused", "replaced", "peer removed", "process ends",
}

// String returns the name of the reason.
func (r Reason) String() string {
	if r < Reasons {
		return reasonNames[r]
	}
	return "unknown"
}

// IsFault reports whether a connection's end for this reason stops offers to the peer for a while.
func (r Reason) IsFault() bool { return r <= Revoked }

// An Output is the work that an input of the Machine leaves to its driver.
type Output struct {
	Send    []Send
	Dial    []Dial
	Close   []Close
	Refused []Refused
}

// A Send is a message to send through the broker.
type Send struct {
	To      transport.Peer
	Message Message
}

// A Dial is a connection to make within DialFor. Machine.Dialed gets the result.
type Dial struct {
	Peer    transport.Peer
	Lane    int
	Address string
	Key     Key // the key that the peer must have
	Nonce   Nonce
}

// A Close is a connection to close.
type Close struct {
	ID     uint64
	Reason Reason
}

// A Refused is an offer that was refused, by the peer or, if Here is set, by this process.
type Refused struct {
	Peer   transport.Peer
	Here   bool
	Reason string
}

package agree

import "github.com/shardgen/shardgen/transport"

// A Reason says why a connection ends.
type Reason uint8

// The reasons.
const (
	Broken   Reason = iota // an error of the connection, or the peer closed it
	Stalled                // the peer acknowledged nothing for stream.RetryAfter
	Crowded                // the peer does not read: too much waits to be written
	Forged                 // a frame named another sender, or the bytes were no frame
	Revoked                // the peer was not heard through the broker for HeardFor
	Unused                 // it carried nothing for UnusedFor
	Replaced               // the peer has another connection
	Removed                // the peer left or was removed
	Over                   // this process ends
	Reasons                // the number of reasons
)

var reasonNames = [Reasons]string{
	"broken or closed by the peer", "stalled", "crowded", "forged frame", "not heard through the broker", "unused", "replaced", "peer removed", "process ends",
}

// String names the reason.
func (r Reason) String() string {
	if r < Reasons {
		return reasonNames[r]
	}
	return "unknown"
}

// IsFault reports whether the peer should not be offered a connection at once.
func (r Reason) IsFault() bool { return r <= Revoked }

// An Output is the work that the driver has to do.
type Output struct {
	Send    []Send
	Dial    []Dial
	Close   []Close
	Refused []Refused
}

// A Send is a message to be sent through the broker.
type Send struct {
	To      transport.Peer
	Message Message
}

// A Dial is a connection to be made, within DialFor. Machine.Dialed takes the result.
type Dial struct {
	Peer    transport.Peer
	Lane    int
	Address string
	Key     Key // that the peer must show
	Nonce   Nonce
}

// A Close is a connection to be closed.
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

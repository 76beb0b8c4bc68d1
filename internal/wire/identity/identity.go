// Package identity divides processes into classes. By class, the broker's permissions decide what a
// process may send, and to whom.
//
// The class of a process is in the two highest bits of its incarnation. So an address includes the
// class, and processes of different classes never share an address. A transport takes the class of
// a sender from the subject, because the broker's permissions restrict who may publish there. It
// drops a message if the sender's address has another class.
package identity

import "math/rand/v2"

// A Class is a kind of process, such as a client.
type Class uint8

// The classes of processes.
const (
	Member   Class = iota // of the cluster, or about to join
	Client                // calls entities from outside
	Reader                // asks on behalf of an operator
	Operator              // commands on behalf of an operator
)

const classShift = 62

// Of returns the class that an incarnation names.
func Of(incarnation uint64) Class { return Class(incarnation >> classShift) }

// New returns a random incarnation of a class.
func New(c Class) uint64 { return Mark(c, rand.Uint64()) }

// Mark returns the lower 62 bits of n as an incarnation of a class.
func Mark(c Class, n uint64) uint64 {
	const low = 1<<classShift - 1
	return uint64(c)<<classShift | n&low
}

// String is the name of the class.
func (c Class) String() string {
	switch c {
	case Member:
		return "member"
	case Client:
		return "client"
	case Reader:
		return "reader"
	}
	return "operator"
}

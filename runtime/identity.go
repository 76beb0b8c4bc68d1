package shard

import "github.com/shardgen/shardgen/internal/driver/node"

// A Class is the kind of process that a call came from.
type Class int

// The classes of callers, as the engine numbers them.
const (
	// ClassMember is a member of the cluster, and so each entity that calls another one.
	ClassMember Class = iota + 1
	// ClassClient is a process with a [Conn].
	ClassClient
	// ClassGateway is a caller in any language that called through a member with Config.Gateway.
	ClassGateway
)

// String returns the name of the class.
func (c Class) String() string { return node.CallerClass(c).String() }

// An Identity names the caller of a call. It comes from the transport: the broker's permissions decide
// which names a process may use (docs/security.md), and no argument or header changes it. On a
// broker without permissions each process may use each name.
type Identity struct {
	Class Class
	// Name is Config.Name of the member or client, or the name in the subject of a caller of the
	// gateway.
	Name string
	// Incarnation tells processes of one name apart. It is 0 for callers of the gateway.
	Incarnation uint64
	// Kind and ID are the entity whose turn made the call. They are empty if no turn did, and
	// for tells. Of a client and of a caller of the gateway they are always empty.
	Kind, ID string
}

// String returns the class and the name, and the entity if there is one.
func (i Identity) String() string {
	return node.Caller{Class: node.CallerClass(i.Class), Name: i.Name, Kind: i.Kind, ID: i.ID}.String()
}

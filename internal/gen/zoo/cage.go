package zoo

import "context"

// Cage returns values of types with a JSON form of their own.
//
//shard:entity json
type Cage struct{}

// EchoOneofs returns its arguments.
func (c *Cage) EchoOneofs(_ context.Context, v Oneofs) (Oneofs, error) { return v, nil }

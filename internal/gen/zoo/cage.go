package zoo

import "context"

// Cage passes back what has a form in JSON of its own.
//
//shard:entity json
type Cage struct{}

// EchoOneofs returns what it is given.
func (c *Cage) EchoOneofs(_ context.Context, v Oneofs) (Oneofs, error) { return v, nil }

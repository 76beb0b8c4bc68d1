package node

import (
	"errors"

	"github.com/shardgen/shardgen/runtime/codegen"
)

// commandKey returns the key of the reference's calls; nil means that it has none.
func commandKey(r *codegen.Ref) *string {
	if odd, is := r.Invoker.(*codegen.Odd); is {
		return odd.Options.CommandID
	}
	return nil
}

// errNoCommandID is the error of calls whose reference has an empty key.
var errNoCommandID = errors.New("its command id is empty (give shard.CommandID a key, or leave the option out)")

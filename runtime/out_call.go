package shard

import (
	"context"

	"github.com/shardgen/shardgen/runtime/codegen"
)

// An outCall is one call that goes encoded.
type outCall struct {
	Context context.Context
	Args    []byte // encoded arguments, in a buffer of codegen.NewArgs
	Ref     *codegen.Ref
	Method  string
}

package shard

import "github.com/shardgen/shardgen/runtime/codegen"

// The names that user code and generated code share with package codegen.
type (
	// A Caller makes calls: a [*Node] or a [*Conn].
	Caller = codegen.Caller
	// A CallOption configures one reference; see [Timeout] and [CommandID].
	CallOption = codegen.CallOption
	// An Activation is the reason that OnActivate gets for the activation of its entity.
	Activation = codegen.Activation
	// A Passivation is the reason that OnPassivate gets for the end of its entity.
	Passivation = codegen.Passivation
)

// The reasons of an activation and of a passivation.
const (
	Fresh       = codegen.Fresh       // it has no state
	Reactivated = codegen.Reactivated // it was passivated here, and has its state
	Moved       = codegen.Moved       // its state came from another node
	Recovered   = codegen.Recovered   // it is of a durable type, and its state comes from the store

	Idle      = codegen.Idle      // it was not called for IdleAfter, it made room (MaxActive), or it called Passivate
	Moving    = codegen.Moving    // its shard moves to another node
	Stopping  = codegen.Stopping  // its node stops without giving its shard away
	Forgotten = codegen.Forgotten // it called Forget, or its supervisor stopped it
)

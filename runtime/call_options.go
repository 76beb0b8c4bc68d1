package shard

import (
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
)

// Timeout bounds each call of a reference. The default is Config.CallTimeout, for calls
// whose context has no deadline. The method sees it as the deadline of its context.
func Timeout(d time.Duration) CallOption {
	return func(o *codegen.CallOptions) { o.Timeout = d }
}

// CommandID makes all calls of a reference to an entity of a durable type one command: the
// first call runs, and the others get its answer, also from other processes and after
// restarts. A request that has an id, of a payment for example, is thus carried out once
// although it was sent again. A call with the same key and another method or other arguments
// fails with [ErrCommandReused]. With an empty key every call of the reference fails (outcome NotExecuted): the
// request that the key was read from had none. With any other key
// the option has no effect on tells, nor on types that are not durable.
//
// That holds for calls that a turn of an entity makes, too: the key names the call instead of its place
// in the turn, so the call is one command with those of other turns. Tells do not use the key.
//
// A key is known for at least 10 minutes after the last call with it, always. Where there is no room for
// its answer, a call with it fails with [ErrAnswerForgotten] (outcome Executed), and does not run again: a
// shard has room for 16,384 ids and keys, of which a key takes two, with 16 MiB of answers. Where a new key
// could not be kept as long, because the shard has 65,536 of the last 10 minutes, its call fails with [ErrOverloaded] (outcome
// NotExecuted). In addition the entity keeps its last 128 keys with their answers for 24 hours, even while it is
// passivated and after [Forget], as far as they fit in 64 KiB, and together with the entity's state in
// 512 KiB. A key that is no longer kept counts as new, and its call runs. A method marked
// //shard:read, and one that changed nothing, is run each time.
func CommandID(key string) CallOption {
	return func(o *codegen.CallOptions) { o.CommandID = &key }
}

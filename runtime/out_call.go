package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/internal/calling"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// An outCall is one call in encoded form.
type outCall struct {
	Context context.Context
	Args    []byte // encoded arguments, in a buffer of codegen.NewArgs
	Ref     *codegen.Ref
	Method  string
	Command *sentCommand // of a durable type; nil otherwise
}

// sent is the command as package calling has it; nil for none.
func (c *outCall) sent() *calling.Command {
	if c.Command == nil {
		return nil
	}
	return &c.Command.sent
}

// CommandID makes all calls of a reference to an entity of a durable type one command: the
// first call runs, and the others get its answer, also from other processes and after
// restarts. A request that has an id, of a payment for example, is thus carried out once
// although it was sent again. A call with the same key and another method or other arguments
// fails. The option has no effect on tells and on types that are not durable.
//
// That holds for calls that a turn of an entity makes, too: the key names the call instead of its place
// in the turn, so the call is one command with those of other turns. Tells do not use the key.
//
// The entity keeps its last 128 keys for 24 hours, even while it is passivated and after
// [Forget], as far as they fit with their answers in 64 KiB, and together with the entity's
// state in 512 KiB. In addition the shard keeps each key for 10 minutes after the last call with
// it, unless it needs the room for newer commands: it has room for 16,384 ids and keys, of which
// a key takes two, with 16 MiB of answers. A key that is no longer kept counts as new, and its call runs. A method marked
// //shard:read, and one that changed nothing, is run each time.
func CommandID(key string) CallOption {
	return func(o *codegen.CallOptions) { o.CommandID = key }
}

// sentCommand is the command of a call to a durable type. It is the same for each
// attempt.
type sentCommand struct {
	id     durablehost.ID
	number uint64 // of this process's commands; 0 means it is part of another's command
	sent   calling.Command
	tried  bool
	doubt  string // why it is not known; "" if nobody said
}

// why is the cause of a call that has to end: the last try's doubt, if there is one.
func (c *outCall) why(ended, cause error) error {
	if c.Command != nil && c.Command.doubt != "" {
		return fmt.Errorf("%w: %s", ended, c.Command.doubt)
	}
	return late(ended, cause)
}

// next returns the command as this attempt sends it.
func (s *sentCommand) next(from *durablehost.Source) durablehost.ID {
	if s.number != 0 && s.tried { // at first it has what came with its number
		from.Update(&s.id)
	}
	s.tried = true
	return s.id
}

// end ends a call's command. If an earlier attempt may have run, an error no longer
// says that the call did not run.
func (s *sentCommand) end(from *durablehost.Source, err error) error {
	if s.number != 0 {
		from.End(s.number)
	}
	if err == nil {
		return nil
	}
	var failed *CallError
	if !errors.As(err, &failed) {
		return err
	}
	if o := Outcome(s.sent.Final(calling.Outcome(failed.Outcome), errors.Is(err, errLargeCommit))); o != failed.Outcome {
		failed.Outcome = o
		failed.Err = fmt.Errorf("%w (an earlier attempt may have run: ask the entity before calling again)", failed.Err)
	}
	return err
}

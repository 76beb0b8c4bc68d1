package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// An outCall is one call that goes encoded.
type outCall struct {
	Context context.Context
	Args    []byte // encoded arguments, in a buffer of codegen.NewArgs
	Ref     *codegen.Ref
	Method  string
	Command *sentCommand // of a durable type; nil otherwise
}

// sendsAgain reports whether an answer has the call sent again: it did not run there. One
// with a command may be sent again although it may have run.
func (c *outCall) sendsAgain(code wire.Code) bool {
	switch code {
	case wire.CodeMoved, wire.CodeDropped, wire.CodeStopped:
		return true
	case codeLost, wire.CodeInDoubt:
		if c.Command != nil {
			c.Command.unsure = true
			return true
		}
	case wire.CodeOverloaded:
		return c.Command != nil && c.Command.unsure
	}
	return false
}

// CommandID makes all calls of a reference to an entity of a durable type one command: the
// first is run, and the others get its answer, from whatever process and after whatever
// restart they come. So a request with an id of its own, of a payment for example, is carried
// out once although it was sent again. A call with the same key and another method or other
// arguments fails.
//
// The shard keeps each key for 10 minutes after it was last asked for. Beyond that, and also
// when it was passivated or has ended by [Forget], the entity keeps its last 128 keys for 24
// hours, as many of them as fit with their answers in 64 KiB, and in 512 KiB together with the
// entity's state. A key that is kept no longer is new: the call is run. A method marked
// //shard:read, and one that changed nothing, is run each time.
func CommandID(key string) CallOption {
	return func(o *codegen.CallOptions) { o.CommandID = key }
}

// sentCommand is the command of a call to a durable type: the same for each try.
type sentCommand struct {
	id     durablehost.ID
	number uint64 // of this process's commands; 0: it is part of another's command
	unsure bool   // an earlier try may have run
	tried  bool
}

// encoded is the command as it travels now.
func (s *sentCommand) encoded(from *durablehost.Source) []byte {
	if s.number != 0 && s.tried { // at first it has the floor that came with its number
		s.id.Floor = from.Floor()
	}
	s.tried = true
	return s.id.Append(nil)
}

// end ends a call's command. Where an earlier try may have run, it is not known that
// the call did not.
func (s *sentCommand) end(from *durablehost.Source, err error) error {
	if s.number != 0 {
		from.End(s.number)
	}
	var failed *CallError
	if s.unsure && errors.As(err, &failed) && failed.Outcome == NotExecuted {
		failed.Outcome = Unknown
		failed.Err = fmt.Errorf("%w (an earlier try may have run: ask the entity before calling again)", failed.Err)
	}
	return err
}

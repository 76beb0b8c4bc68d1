package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
)

type outCall struct {
	Context context.Context
	Args    []byte // encoded arguments, in a buffer from codegen.NewArgs
	Ref     *codegen.Ref
	Method  string
	Command *sentCommand // of a call to a durable type; nil otherwise
	again   bool         // of a pool: the method may run twice
	trace   *sentTrace   // nil: it is not traced
}

func (c *outCall) sent() *calls.Command {
	switch {
	case c.Command != nil:
		return &c.Command.sent
	case c.repeats():
		return new(calls.Command) // it may run twice
	}
	return nil
}

// repeats reports whether the call does no harm if it runs twice.
func (c *outCall) repeats() bool { return c.again || c.lists() || c.Method == wire.MethodFire }

// lists reports whether the call asks a shard for a page of ids.
func (c *outCall) lists() bool { return c.Ref.ID == "" }

// sentCommand is the command of a call to a durable type, the same for all attempts.
type sentCommand struct {
	id     durablehost.ID
	number uint64 // number among the commands of this process; 0 means that id has a key, or comes from a turn or a log
	sent   calls.Command
	tried  bool
	doubt  string // why it is unknown whether the last attempt was committed; "" means that no answer raised this doubt
}

// why adds a reason to the error ended: the doubt about the last attempt or, if there is no doubt,
// cause.
func (c *outCall) why(ended, cause error) error {
	switch {
	case c.Command != nil && c.Command.doubt != "":
		return fmt.Errorf("%w: %s", ended, c.Command.doubt)
	case c.lists():
		return fmt.Errorf("%w: %w", ended, cause) // late's remedy does not help a list
	}
	return late(ended, cause)
}

func (s *sentCommand) next(from *durablehost.Source) *durablehost.ID {
	if s.number != 0 && s.tried { // the first attempt has the finished numbers of Source.Begin
		from.Update(&s.id)
	}
	s.tried = true
	return &s.id
}

// end ends a call's command, and returns the call's error. If an earlier attempt may have run, this
// error no longer says that the call did not run.
func (s *sentCommand) end(drv *Driver, err error) error {
	if s.number != 0 {
		drv.commands.End(s.number)
	}
	if err == nil {
		return nil
	}
	failed, ok := drv.Config.ReadCallError(err)
	if !ok || failed.Err == nil {
		return err
	}
	o := s.sent.Final(failed.Outcome, errors.Is(err, errLargeCommit))
	if o == failed.Outcome {
		return err
	}
	failed.Outcome = o
	failed.Err = fmt.Errorf("%w (an earlier attempt may have run: ask the entity before calling again)", failed.Err)
	return drv.Config.CallError(failed)
}

// toldContext is the context of a call that delivers a tell stored in a log.
type toldContext struct {
	context.Context
	id durablehost.ID
}

var sentCommands = sync.Pool{New: func() any { return new(sentCommand) }}

func newSentCommand() *sentCommand { return sentCommands.Get().(*sentCommand) }

// recycle frees the command's memory for reuse. The call must have ended.
func (s *sentCommand) recycle() {
	*s = sentCommand{}
	sentCommands.Put(s)
}

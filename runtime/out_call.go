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

// sentCommand is the command of a call to a durable type. It is the same for each
// attempt.
type sentCommand struct {
	id     durablehost.ID
	number uint64 // among the commands of this process; 0 means that the id has a key, or comes from a turn or a log
	sent   calling.Command
	tried  bool
	doubt  string // why it is not known whether the last attempt is committed; "" if nobody said
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
	if s.number != 0 && s.tried { // the first attempt has the finished numbers of Source.Begin
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

// toldContext is the context of a call that delivers a tell from a shard's log.
type toldContext struct {
	context.Context
	id durablehost.ID
}

// newCommand gives a call its command. A key that its reference names wins over the id that a call of
// a turn would have otherwise: it may be the key of another turn's call, too.
func newCommand(p invoker, c *outCall) *sentCommand {
	if t, ok := c.Context.(*toldContext); ok {
		return &sentCommand{id: t.id}
	}
	if odd, is := c.Ref.Invoker.(*codegen.Odd); is && odd.Options.CommandID != "" {
		return &sentCommand{id: durablehost.ID{Key: odd.Options.CommandID}}
	}
	if d := durableOf(turnOf(c.Context)); d != nil {
		if id := d.nested(p.kind.desc.Name, c.Ref.ID, c.Method); !id.IsZero() {
			return &sentCommand{id: id}
		}
	}
	id := p.kind.driver.commands.Begin()
	return &sentCommand{id: id, number: id.Number}
}

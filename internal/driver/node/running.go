package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
)

type answer struct {
	code    wire.Code
	text    string
	payload *[]byte      // of CodeOK: the results, in a buffer from answerPool; of CodeMethodError: the declared errors
	after   *durableTurn // the answer waits until everything that this turn saw is in the log; nil means no wait
}

// parts returns the answer's text and payload, cut to fit into one message. It cuts the text for a
// local caller too, so that the error is the same wherever the entity is.
func (a answer) parts(drv *Driver) (text string, payload []byte) {
	text = a.text[:min(len(a.text), maxErrorText)]
	if a.payload != nil {
		payload = *a.payload
	}
	if a.code != wire.CodeOK {
		if room := drv.MaxResult(); len(text)+len(payload) > room {
			text, payload = text[:min(len(text), room)], nil // keep the text, which people read
		}
	}
	return text, payload
}

func (a answer) envelope(drv *Driver, id uint64) wire.Envelope {
	text, payload := a.parts(drv)
	return wire.Envelope{Type: wire.TypeAnswer, ID: id, Code: a.code, Text: wire.BytesOf(text), Payload: payload}
}

// err returns the answer as an error for interceptors. own is the method's error.
func (a answer) err(s *HostedShard, call CallInfo, own error) error {
	switch {
	case a.code == wire.CodeOK:
		return nil
	case own != nil:
		return own
	case a.code == wire.CodePanic:
		return s.driver().Config.CallError(CallFailure{Kind: call.Kind, ID: call.ID, Method: call.Method, Text: a.text, Panic: true})
	}
	outcome := calls.NotExecuted
	if a.code.Executed() {
		outcome = calls.Executed
	}
	cause := notRun(call.Kind, calls.Result{Code: a.code, Text: a.text}, s.driver().Config.SingletonBuffer)
	if cause == nil {
		cause = errors.New(a.text)
	}
	return s.driver().Config.CallError(CallFailure{Kind: call.Kind, ID: call.ID, Method: call.Method, Outcome: outcome, Err: cause})
}

func (a answer) sent() {
	if a.payload != nil && cap(*a.payload) <= maxSpareAnswer {
		answerPool.Put(a.payload)
	}
}

// exited is the answer of a method that called runtime.Goexit.
var exited = answer{code: wire.CodePanic, text: "runtime.Goexit"}

const maxSpareAnswer = 64 << 10

var answerPool = sync.Pool{New: func() any { return &[]byte{} }}

const maxErrorText = 64 << 10

func clipText(s string) string { return s[:min(len(s), maxErrorText)] }

func notActivated(s *HostedShard, e *region.Entity, c *InCall, err error) answer {
	if r := c.Encoded.Load(); r != nil && r.cut() {
		return answer{code: wire.CodeDropped} // the caller looks for the next home
	}
	drv := s.driver()
	c.failed = &failure{method: string(c.Method), err: fmt.Errorf("%w: %w", ErrActivation, err)}
	if n, tell := drv.Limiter.count("activation failed", s.ID.Kind, ""); tell {
		drv.Logger.Error("activation failed", "kind", s.ID.Kind, "entity", clip(e.ID), "err", err, "count", n)
	}
	return answer{code: wire.CodeActivation, text: err.Error()}
}

// runMethod runs an encoded call, and activates a volatile entity. r is nil if the method does not
// name its context.
func runMethod(s *HostedShard, r *encodedTurn, e *region.Entity, c *InCall, method codegen.Method) answer {
	if e.Value == nil {
		if err := s.activate(&r.turn, e); err != nil {
			return notActivated(s, e, c, err)
		}
		if a, ok := s.leased(&r.turn); !ok { // the hook may have taken long
			return a
		}
	}
	name := wire.StringOf(c.Method)
	var buf *[]byte
	var out []byte // nil: no caller wants the results
	if c.ID != 0 {
		buf = answerPool.Get().(*[]byte)
		out = (*buf)[:0]
	}
	out, err := invoke(r.seen(e), s, e, name, method, c.Args, out)
	if err != nil && s.Durable != nil && errors.Is(err, ErrTryAgain) {
		return answer{code: wire.CodeRefused, text: err.Error()}
	}
	if err != nil {
		if failed := s.Host.failureOf(e.ID, strings.Clone(name), err); failed != nil {
			c.failed = failed
		}
		return methodError(s.Host.Kind.errors, err)
	}
	if buf == nil {
		return answer{}
	}
	*buf = out
	if len(out) > smallMessage {
		if limit := s.driver().MaxResult(); len(out) > limit {
			return answer{code: wire.CodeTooLarge, text: fmt.Sprintf("%d bytes of results, at most %d", len(out), limit)}
		}
	}
	return answer{payload: buf}
}

func methodError(table func() []codegen.Error, err error) answer {
	// Only the type of err itself counts: a method may return the error of a nested
	// call, and calls never return these types.
	switch err := err.(type) { //nolint:errorlint
	case *panicked:
		return answer{code: wire.CodePanic, text: err.Error()}
	case *codegen.ArgumentsError:
		return answer{code: wire.CodeBadArgs, text: err.Error()}
	case *codegen.ResultsError:
		return answer{code: wire.CodeNoResult, text: err.Error()}
	}
	text, causes := codegen.DescribeError(table(), err)
	a := answer{code: wire.CodeMethodError, text: text}
	if len(causes) > 0 {
		a.payload = &causes
	}
	return a
}

type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprint(p.value) }

func invoke(ctx context.Context, s *HostedShard, e *region.Entity, name string, m codegen.Method, args, buf []byte) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.Host.notePanic(e.ID, strings.Clone(name), r)
			out, err = nil, &panicked{r}
		}
	}()
	return m(ctx, e.Value, args, buf)
}

func PanicError(what string, r any) error { return fmt.Errorf("%w in %s: %v", ErrPanic, what, r) }

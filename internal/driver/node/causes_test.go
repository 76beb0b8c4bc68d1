package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// waiting is a control plane of a process that has not joined.
type waiting struct{ ControlPlane }

func (waiting) Waits(string, time.Time) (string, bool) { return "node a is not up yet", true }

// causeNode returns a node that was not started, and a call of that node.
func causeNode() (*Driver, invoker, *outCall) {
	cfg := testConfig()
	cfg.BufferSize, cfg.SingletonBuffer = 7, 5
	drv := NewDriver(cfg, testPeer, waiting{})
	k := drv.Kind(codegen.Kind{Name: "Cart", Package: "shop"})
	return drv, invoker{k}, &outCall{Ref: &codegen.Ref{ID: "42"}, Method: "Add"}
}

// TestCausesOfAnswers: the text that the caller of Cart/42.Add gets for each answer.
func TestCausesOfAnswers(t *testing.T) {
	_, p, c := causeNode()
	for _, test := range []struct {
		name    string
		res     calls.Result
		is      error
		outcome calls.Outcome
		want    string
	}{
		{"overloaded", calls.Result{Code: wire.CodeOverloaded, Text: "its mailbox at b already holds 9 calls (retry later, or raise its MaxMailboxCalls)"}, ErrOverloaded, calls.NotExecuted, "overloaded: its mailbox at b already holds 9 calls (retry later, or raise its MaxMailboxCalls)"},
		{"overloaded, of an older host", calls.Result{Code: wire.CodeOverloaded}, ErrOverloaded, calls.NotExecuted, "overloaded: a mailbox or buffer at its home is full (retry later)"},
		{"circular", calls.Result{Code: wire.CodeCircular, Text: "Cart/42 → Cart/42"}, ErrCircular, calls.NotExecuted, "circular call: Cart/42 → Cart/42 (make one of these calls a Tell, or make it after the turn)"},
		{"unknown type", calls.Result{Code: wire.CodeUnknownKind}, ErrNoHost, calls.NotExecuted, "no member hosts the type: the home of the entity's shard does not know Cart (start members that host it)"},
		{"other shards", calls.Result{Code: wire.CodeUnknownKind, Text: "it has 4 shards at b, the caller's shard is 9"}, ErrMismatch, calls.NotExecuted, "type mismatch: it has 4 shards at b, the caller's shard is 9 (generate caller and host from one version)"},
		{"unknown method", calls.Result{Code: wire.CodeNoMethod, Text: "Add"}, ErrNoMethod, calls.NotExecuted, "unknown method: Cart has no method Add at its host, which runs an older or a newer program (deploy a new method to hosts before callers, and remove one from callers before hosts)"},
		{"arguments", calls.Result{Code: wire.CodeBadArgs, Text: "field 1: cut off"}, ErrBadArgs, calls.NotExecuted, "the arguments cannot be decoded: field 1: cut off (generate caller and host from one version)"},
		{"activation", calls.Result{Code: wire.CodeActivation, Text: "no such row"}, ErrActivation, calls.NotExecuted, "activation failed: no such row (the log of the entity's node has more)"},
		{"expired before its turn", calls.Result{Code: wire.CodeExpired}, context.DeadlineExceeded, calls.NotExecuted, "context deadline exceeded: the entity was busy (give it more time: shard.Timeout, or a later deadline)"},
		{"expired without a lease", calls.Result{Code: wire.CodeExpired, Text: NoContact("b")}, context.DeadlineExceeded, calls.NotExecuted, "context deadline exceeded: node b has lost contact with the cluster and runs nothing (check its connection to NATS, and those of the other members)"},
		{"results too large", calls.Result{Code: wire.CodeTooLarge, Text: "9 bytes of results, at most 5"}, ErrTooLarge, calls.Executed, "message too large: 9 bytes of results, at most 5 (send less at once, or raise max_payload of the NATS server)"},
		{"results that do not encode", calls.Result{Code: wire.CodeNoResult, Text: "encode total: oops"}, ErrNoResult, calls.Executed, "the results cannot be encoded: encode total: oops (the method has run: correct the results that it returns)"},
		{"command id of another call", calls.Result{Code: wire.CodeReused, Text: "Cart was called with it by another method"}, ErrCommandReused, calls.NotExecuted, "the command id belongs to another call: Cart was called with it by another method"},
		{"answer not kept", calls.Result{Code: wire.CodeForgotten, Text: "Cart has run it"}, ErrAnswerForgotten, calls.Executed, "the answer of the command is no longer kept: Cart has run it (it will not run again: ask the entity for the result)"},
		{"results too large for a durable turn", calls.Result{Code: wire.CodeCommitLarge, Text: "9 bytes of results, at most 5"}, ErrTooLarge, calls.NotExecuted, "message too large for a durable turn: 9 bytes of results, at most 5"},
		{"lost", calls.Result{Code: calls.Lost, Lost: transport.Address{Name: "b", Incarnation: 7}}, ErrLost, calls.Unknown, "the node was lost: b#0000000000000007 (it may have run: ask the entity before calling again)"},
		{"not queued", calls.Result{Code: calls.Unsent, Text: "too many bytes unacknowledged: 9 bytes for b"}, ErrOverloaded, calls.NotExecuted, "overloaded: too many bytes unacknowledged: 9 bytes for b (slow down and retry, or raise Config.Limits.MaxBuffered)"},
		{"arguments too large", calls.Result{Code: wire.CodeUnsendable, Text: "9 bytes, at most 5"}, ErrTooLarge, calls.NotExecuted, "message too large: 9 bytes, at most 5 (send less at once, or raise max_payload of the NATS server)"},
		{"shed", calls.Result{Code: calls.Shed}, ErrBufferFull, calls.NotExecuted, "dropped from a full buffer: at most 5 calls wait for an instance (raise Config.Limits.SingletonBuffer?)"},
		{"a later code", calls.Result{Code: 999}, nil, calls.Unknown, "the answer has the unknown code 999 (does the host run a newer program?)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, said := calls.NextStep(test.res.Code, nil)
			require.Equal(t, test.outcome, said)
			err := p.resultError(c, test.res, said)
			require.Equal(t, "call Cart/42.Add: "+test.want+" ("+test.outcome.String()+")", err.Error())
			require.Equal(t, test.outcome, outcomeOf(err))
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
		})
	}
	err := p.resultError(c, calls.Result{Code: wire.CodeCanceled}, calls.NotExecuted)
	require.ErrorIs(t, err, context.Canceled) // the caller's own doing needs no remedy
}

// TestCausesHere: the texts of errors that do not come from an answer.
func TestCausesHere(t *testing.T) {
	drv, p, _ := causeNode()
	r := p.kind.Route(p.kind.Shards + 3)
	client := NewDriver(testConfig(), transport.Peer{Address: transport.Address{Name: "c"}, Client: true}, nil)
	expired := context.DeadlineExceeded
	for _, test := range []struct {
		err  error
		is   []error
		want string
	}{
		{late(expired, errNoHome), []error{expired}, "context deadline exceeded: the entity's shard has no home yet (give it more time: shard.Timeout, or a later deadline)"},
		{late(expired, r.WaitsFor(time.Now())), []error{expired}, "context deadline exceeded: the entity's shard has no home yet: node a is not up yet (give it more time: shard.Timeout, or a later deadline)"},
		{late(expired, errPassed), []error{expired}, "context deadline exceeded: the deadline had passed before the call was sent (give it more time: shard.Timeout, or a later deadline)"},
		{late(context.Canceled, errNoAnswer), []error{context.Canceled}, "context canceled: no answer"},
		{late(expired, ErrNoHost), []error{expired, ErrNoHost}, "context deadline exceeded: no member hosts the type"},
		{drv.ErrClosed(), []error{ErrClosed}, "closed: node a has ended (its Err has the reason; make calls at another node, or start a new one)"},
		{client.ErrClosed(), []error{ErrClosed}, "closed: connection c has ended (call Dial again)"},
		{r.errHolding(), []error{ErrOverloaded}, "overloaded: 7 calls wait at a already: shard 259 of Cart: the entity's shard has no home yet: node a is not up yet (retry later, or raise Config.Limits.BufferSize)"},
		{r.errUnbuffered(), []error{ErrBufferFull}, "dropped from a full buffer: Config.Limits.SingletonBuffer lets no call wait at a, and no instance of Cart is known yet (retry later)"},
		{errPending, []error{ErrOverloaded}, "overloaded: 1048576 calls of this process wait for answers (let some of them end before making more)"},
		{publicError(stream.ErrFull), []error{ErrOverloaded, stream.ErrFull}, "overloaded: too many bytes unacknowledged (slow down and retry, or raise Config.Limits.MaxBuffered)"},
		{publicError(stream.ErrTooLarge), []error{ErrTooLarge, stream.ErrTooLarge}, "message too large: exceeds the broker's payload limit (send less at once, or raise max_payload of the NATS server)"},
	} {
		require.EqualError(t, test.err, test.want)
		for _, is := range test.is {
			require.ErrorIs(t, test.err, is)
		}
	}
	own := errors.New("own")
	require.Equal(t, own, publicError(own))
	_, err := p.Hash(strings.Repeat("x", maxIDBytes+1))
	require.EqualError(t, err, "bad entity id: the id has 1025 bytes (want 1 to 1024)")
}

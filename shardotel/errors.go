package shardotel

import (
	"context"
	"errors"

	shard "github.com/shardgen/shardgen/runtime"
)

// causes are the values of error.type for errors of the runtime. They are tried in this order.
var causes = []struct {
	err  error
	name string
}{
	{shard.ErrPanic, "panic"},
	{shard.ErrRefused, "refused"},
	{shard.ErrOverloaded, "overloaded"},
	{shard.ErrForbidden, "forbidden"},
	{shard.ErrNoMethod, "no_method"},
	{shard.ErrNoHost, "no_host"},
	{shard.ErrNoInstance, "no_instance"},
	{shard.ErrBufferFull, "buffer_full"},
	{shard.ErrBadArgs, "bad_arguments"},
	{shard.ErrBadID, "bad_id"},
	{shard.ErrNoResult, "no_result"},
	{shard.ErrTooLarge, "too_large"},
	{shard.ErrCommandReused, "command_reused"},
	{shard.ErrAnswerForgotten, "answer_forgotten"},
	{shard.ErrCircular, "circular"},
	{shard.ErrActivation, "activation"},
	{shard.ErrMismatch, "mismatch"},
	{shard.ErrLost, "lost"},
	{shard.ErrDowned, "downed"},
	{shard.ErrClosed, "closed"},
	{context.DeadlineExceeded, "deadline"},
	{context.Canceled, "canceled"},
}

// entityError is the error.type of an error that a method returned, and otherError that of a call that
// failed without a known cause, such as one whose turn was dropped by [shard.TryAgain]. otherMethod is
// the rpc.method of a method that the host does not know.
const (
	entityError = "entity"
	otherError  = "_OTHER"
	otherMethod = "_OTHER"
)

// typeOf returns the label error.type of an error, one value of a small fixed set.
func typeOf(err error) string {
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	var own *shard.EntityError
	var call *shard.CallError
	if !errors.As(err, &own) && errors.As(err, &call) {
		return otherError
	}
	return entityError
}

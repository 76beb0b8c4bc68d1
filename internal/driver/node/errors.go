package node

import (
	"errors"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/runtime/singleton"
)

// Causes of the errors of calls. Package shard documents them.
var (
	ErrOverloaded      = errors.New("overloaded")
	ErrCircular        = errors.New("circular call")
	ErrNoHost          = errors.New("no member hosts the type")
	ErrNoMethod        = errors.New("unknown method")
	ErrBadArgs         = errors.New("the arguments cannot be decoded")
	ErrActivation      = errors.New("activation failed")
	ErrTooLarge        = errors.New("message too large")
	ErrNoResult        = errors.New("the results cannot be encoded")
	ErrForbidden       = errors.New("forbidden")
	ErrBadID           = errors.New("bad entity id")
	ErrCommandReused   = errors.New("the command id belongs to another call")
	ErrAnswerForgotten = errors.New("the answer of the command is no longer kept")
	ErrMismatch        = errors.New("type mismatch")
	ErrLost            = errors.New("the node was lost")
	ErrClosed          = errors.New("closed")
	ErrPanic           = errors.New("panic")
	ErrNoInstance      = singleton.ErrNoInstance
	ErrBufferFull      = errors.New("dropped from a full buffer")
	ErrNotSingleton    = singleton.ErrNotSingleton
	ErrRefused         = errors.New("refused by an interceptor")
	ErrEscalated       = errors.New("escalated by a supervisor")
	ErrNotPublished    = errors.New("not published")
	ErrNoEpoch         = errors.New("ctx belongs to no turn of a durable type (only durable types have epochs, because the epochs of other types begin again after a full restart)")
)

func clip(s string) string { return bounded.ID(s) }

package linear

import (
	"math"

	"github.com/anishathalye/porcupine"

	"github.com/shardgen/shardgen/internal/sim/durable"
)

// operations are what callers saw of durable accounts. One that was not answered may have
// been applied at any time after its call, or not at all.
func operations(history []durable.Operation) (all []porcupine.Operation) {
	for _, op := range history {
		in := input{action: add, id: op.Account, amount: op.Change}
		if op.Read {
			in.action, in.amount = get, 0
		}
		switch {
		case op.Failed || op.Read && !op.Answered:
			continue
		case op.Answered:
			all = append(all, porcupine.Operation{ClientId: op.Caller + 1, Input: in, Call: int64(op.Call), Output: op.Balance, Return: int64(op.Return)})
		default:
			in.action = tell
			all = append(all, porcupine.Operation{ClientId: op.Caller + 1, Input: in, Call: int64(op.Call), Output: int64(0), Return: math.MaxInt64})
		}
	}
	return all
}

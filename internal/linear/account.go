// Package linear checks that the calls of one entity could have run one after
// another: its test loads a few entities from many callers, near and far, while their
// shards move and they are passivated, and gives porcupine what each caller saw.
//
// The simulator drives the cores one step at a time, under a lock. What goes round
// that lock, local calls of idle entities and all tells to them, is seen here and by the
// stress tests of package region.
//
// Twenty runs of a million operations each take about ten minutes:
//
//	go test -C internal/linear -run TestCallsAreLinearizable -count 20 -timeout 60m . -operations 1000000
//
// It is a module of its own, so that nobody else needs porcupine.
package linear

import (
	"math"

	"github.com/anishathalye/porcupine"

	"github.com/shardgen/shardgen/internal/sim/durable"
)

// An action is an operation on an account.
type action uint8

const (
	add     action = iota // adds to the balance, and is answered with it
	get                   // is answered with the balance
	tell                  // adds to the balance, without an answer
	abandon               // is an add without an answer: it may take effect at any time after its call, or never
)

// input is one operation as it was called; its output is the balance.
type input struct {
	action action
	id     string
	amount int64
}

// balances is the model of accounts that begin with what is given: each operation
// takes effect at one moment between its call and its return.
func balances(begin map[string]int64) porcupine.Model {
	return porcupine.Model{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			var order []string
			of := map[string][]porcupine.Operation{}
			for _, op := range all {
				id := op.Input.(input).id
				if of[id] == nil {
					order = append(order, id)
				}
				of[id] = append(of[id], op)
			}
			parts := make([][]porcupine.Operation, len(order))
			for i, id := range order {
				parts[i] = of[id]
			}
			return parts
		},
		Init: func() any { return balance{} },
		Step: func(state, in, out any) (bool, any) {
			s, op := state.(balance), in.(input)
			if !s.known {
				s = balance{known: true, amount: begin[op.id]}
			}
			s.amount += op.amount
			return op.action == tell || op.action == abandon || s.amount == out.(int64), s
		},
		Equal: func(a, b any) bool { return a == b },
	}
}

// balance is the balance of an account. While it is not known, no operation has been
// made.
type balance struct {
	known  bool
	amount int64
}

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

package linear

import "github.com/anishathalye/porcupine"

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

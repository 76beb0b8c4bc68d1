package durable

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// checkHistory reports an account whose operations could not have run one after another.
// Each answer has the version that it saw, and so the order is known: a call that began after
// another had been answered saw the same version or a later one, and writes have versions
// of their own.
func checkHistory(all []Operation) error {
	of := map[string][]Operation{}
	for _, op := range all {
		if op.Answered && !op.Failed {
			of[op.Account] = append(of[op.Account], op)
		}
	}
	for _, id := range sortedKeys(of) {
		ops := of[id]
		balances := map[uint64]int64{}
		wrote := map[uint64]bool{}
		for _, op := range ops {
			if b, known := balances[op.Version]; known && b != op.Balance {
				return fmt.Errorf("linearizability: %s v%d was seen as %d and as %d", id, op.Version, b, op.Balance)
			}
			balances[op.Version] = op.Balance
			if !op.Read {
				if wrote[op.Version] {
					return fmt.Errorf("linearizability: %s v%d is the answer to two writes", id, op.Version)
				}
				wrote[op.Version] = true
			}
		}
		byCall := slices.SortedFunc(slices.Values(ops), func(a, b Operation) int { return cmp.Compare(a.Call, b.Call) })
		byReturn := slices.SortedFunc(slices.Values(ops), func(a, b Operation) int { return cmp.Compare(a.Return, b.Return) })
		seen, next := uint64(0), 0 // the version that answered calls have seen
		for _, op := range byCall {
			for ; next < len(byReturn) && byReturn[next].Return < op.Call; next++ {
				seen = max(seen, byReturn[next].Version)
			}
			if op.Version < seen || !op.Read && op.Version == seen {
				return fmt.Errorf("linearizability: %s: an answer at %v saw v%d, though v%d had been seen at %v before it was called",
					id, op.Return, op.Version, seen, op.Call)
			}
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

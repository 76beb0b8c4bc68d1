package linear

import (
	"flag"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/shardgen/shardgen/internal/sim/durable"
)

var durableSeeds = flag.Int("durable-seeds", 40, "how many simulated runs TestDurableAccountsAreLinearizable checks")

// TestDurableAccountsAreLinearizable: what callers see of durable accounts, over crashes,
// pauses, partitions, moves and an unreliable store, could have been done one after another.
func TestDurableAccountsAreLinearizable(t *testing.T) {
	total, unknown := 0, 0
	for seed := range uint64(*durableSeeds) {
		r := durable.RunClosed(seed)
		if r.Err != nil {
			t.Fatalf("seed %d: %v", seed, r.Err)
		}
		history := operations(r.History)
		for _, op := range history {
			if total++; op.Input.(input).action == tell {
				unknown++
			}
		}
		if got := porcupine.CheckOperationsTimeout(balances(nil), history, patience); got != porcupine.Ok {
			t.Fatalf("seed %d: the history of %d operations: %s", seed, len(history), got)
		}
	}
	t.Log(total, "operations,", unknown, "of them not answered")
	if unknown == 0 {
		t.Error("every operation was answered: the faults do not reach the callers")
	}
}

// TestStaleDurableReadIsSeen: an answer that is older than one that came before its call is
// no such history.
func TestStaleDurableReadIsSeen(t *testing.T) {
	history := []durable.Operation{
		{Account: "a", Change: 1, Answered: true, Call: 1, Return: 2, Balance: 1, Version: 1},
		{Account: "a", Change: 1, Answered: true, Call: 3, Return: 4, Balance: 2, Version: 2},
		{Account: "a", Read: true, Answered: true, Call: 5, Return: 6, Balance: 1, Version: 1},
	}
	if got := porcupine.CheckOperationsTimeout(balances(nil), operations(history), patience); got != porcupine.Illegal {
		t.Errorf("a stale read: %s", got)
	}
}

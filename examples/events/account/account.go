// Package account has a durable entity whose events other programs follow.
package account

import (
	"context"
	"errors"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// An Entry is an event of an account.
type Entry struct {
	Amount int64
	Note   string
}

// An Account has a balance, the sum of its recorded entries.
//
//shard:entity durable keep=90d,followed
type Account struct {
	ID      string `shard:"id"`
	Balance int64  `shard:"state"`
	Journal shard.Journal[Entry]
}

// ErrNotCovered is the error of an Enter that would make the balance negative.
//
//shard:error
var ErrNotCovered = errors.New("the balance does not cover the amount")

// Apply adds an entry to the balance.
func (a *Account) Apply(e Entry) { a.Balance += e.Amount }

// Enter adds amount, unless that would make the balance negative.
func (a *Account) Enter(_ context.Context, amount int64, note string) (int64, error) {
	if a.Balance+amount < 0 {
		return a.Balance, ErrNotCovered
	}
	a.Journal.Record(a, Entry{Amount: amount, Note: note})
	return a.Balance, nil
}

// Follow calls f with events after position from, until f fails or ctx ends. It returns the
// position to continue from.
func Follow(ctx context.Context, accounts *AccountClient, from shard.Position, f func(shard.Event[Entry]) error) (shard.Position, error) {
	for e, err := range accounts.Events(ctx, from) {
		if err != nil {
			return from, err
		}
		// e.Entity, e.Version, e.At, e.Event
		if err := f(e); err != nil {
			return from, err
		}
		from = e.Position
	}
	return from, nil
}

// Share follows the accounts in parts, which are spread over the nodes. Each node calls it before Start.
func Share(node *shard.Node, accounts *AccountClient, parts int, f func(shard.Event[Entry]) error) error {
	return shard.Daemons(node, "balances", parts, func(ctx context.Context, i int) error {
		for e, err := range accounts.Events(ctx, "", shard.FollowerName("balances"), shard.OfPart(i, parts)) {
			if err == nil {
				err = f(e)
			}
			if err != nil {
				return err // it runs again
			}
		}
		return nil
	})
}

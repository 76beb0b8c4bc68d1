// Package bank has an entity that must not lose anything, nor do anything twice.
package bank

import (
	"context"
	"errors"
)

//go:generate go tool shardgen

// ErrNotCovered is the answer to a withdrawal of more than there is.
//
//shard:error
var ErrNotCovered = errors.New("the account does not have so much")

// An Account has money. Its state is in the store before a call is answered.
//
//shard:entity durable
type Account struct {
	ID      string `shard:"id"`
	Balance int64  `shard:"state"` // in cents
	Entries int64  `shard:"state"` // deposits and withdrawals so far
}

// Deposit adds amount and returns the balance.
func (a *Account) Deposit(_ context.Context, amount int64) (balance int64, err error) {
	a.Balance += amount
	a.Entries++
	return a.Balance, nil
}

// Withdraw takes amount and returns the balance.
func (a *Account) Withdraw(_ context.Context, amount int64) (balance int64, err error) {
	if amount > a.Balance {
		return 0, ErrNotCovered
	}
	a.Balance -= amount
	a.Entries++
	return a.Balance, nil
}

// Statement returns the balance, and how many entries led to it.
//
//shard:read
func (a *Account) Statement(context.Context) (balance, entries int64, err error) {
	return a.Balance, a.Entries, nil
}

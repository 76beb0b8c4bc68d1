// Package bank has an entity whose changes must not be lost, and not be made twice.
package bank

import (
	"context"
	"errors"
)

//go:generate go tool shardgen

// ErrNotCovered is the error of a withdrawal of more than the balance.
//
//shard:error
var ErrNotCovered = errors.New("the balance is lower than the amount")

// An Account has money. Its state is in the store before a call is answered.
//
//shard:entity durable
type Account struct {
	ID      string `shard:"id"`
	Balance int64  `shard:"state"` // in cents
	Entries int64  `shard:"state"` // deposits and withdrawals so far
}

// Deposit adds amount to the balance and returns the balance.
func (a *Account) Deposit(_ context.Context, amount int64) (balance int64, err error) {
	a.Balance += amount
	a.Entries++
	return a.Balance, nil
}

// Withdraw takes amount from the balance and returns the balance.
func (a *Account) Withdraw(_ context.Context, amount int64) (balance int64, err error) {
	if amount > a.Balance {
		return 0, ErrNotCovered
	}
	a.Balance -= amount
	a.Entries++
	return a.Balance, nil
}

// Statement returns the balance, and the number of deposits and withdrawals.
//
//shard:read
func (a *Account) Statement(context.Context) (balance, entries int64, err error) {
	return a.Balance, a.Entries, nil
}

package shard

import "github.com/shardgen/shardgen/runtime/codegen"

// A Journal is a field of a durable entity whose methods decide and record events:
//
//	type Account struct {
//		ID      string `shard:"id"`
//		Balance int64  `shard:"state"`
//		Journal shard.Journal[Entry]
//	}
//
//	func (a *Account) Apply(e Entry) { a.Balance += e.Amount }
//
//	func (a *Account) Deposit(_ context.Context, amount int64) (int64, error) {
//		a.Journal.Record(a, Entry{Amount: amount})
//		return a.Balance, nil
//	}
//
// The log carries a turn's events instead of the state. Clients follow the events of all
// entities of the type with the generated method Events.
type Journal[E any] = codegen.Journal[E]

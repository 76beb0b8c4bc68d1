package auction

import (
	"context"
	"errors"
)

// ErrNotCovered is the answer to a reservation of more than is free.
//
//shard:error
var ErrNotCovered = errors.New("the user does not have so much")

// A User has money, of which highest bids reserve a part.
//
//shard:entity durable
type User struct {
	ID       string           `shard:"id"`
	Money    int64            `shard:"state"` // in cents, with what is reserved
	Reserved map[string]int64 `shard:"state"` // by auction
}

// Deposit adds money.
func (u *User) Deposit(_ context.Context, amount int64) error {
	u.Money += amount
	return nil
}

// Reserve keeps money for a bid, instead of what an earlier bid in the same auction reserved.
func (u *User) Reserve(_ context.Context, auction string, amount int64) error {
	if amount > u.free()+u.Reserved[auction] {
		return ErrNotCovered
	}
	if u.Reserved == nil {
		u.Reserved = map[string]int64{}
	}
	u.Reserved[auction] = amount
	return nil
}

// Release frees the money of a bid that another one has exceeded.
func (u *User) Release(_ context.Context, auction string) error {
	delete(u.Reserved, auction)
	return nil
}

// Free returns the money that no bid reserves.
//
//shard:read
func (u *User) Free(context.Context) (int64, error) { return u.free(), nil }

func (u *User) free() int64 {
	free := u.Money
	for _, reserved := range u.Reserved {
		free -= reserved
	}
	return free
}

package auction

import (
	"context"
	"errors"
	"fmt"

	shard "github.com/shardgen/shardgen/runtime"
)

// ErrNotCovered is the error of a bid of more money than the user has free.
//
//shard:error
var ErrNotCovered = errors.New("the amount exceeds the user's free money")

// A User has money. Bids reserve a part of it.
//
//shard:entity durable
type User struct {
	ID       string           `shard:"id"`
	Money    int64            `shard:"state"` // in cents, including reserved money
	Reserved map[string]int64 `shard:"state"` // the latest bid at each auction
	Won      []string         `shard:"state"` // auctions that were paid
	Auctions *AuctionClient   `shard:"-"`     // set by the factory
}

// Deposit adds to the user's money.
func (u *User) Deposit(_ context.Context, amount int64) error {
	u.Money += amount
	return nil
}

// Bid reserves the amount in place of the user's earlier bid at the same auction, and offers it to
// the auction. It asks the auction by a read and changes it by a tell. So a crashed turn leaves no
// trace, and the repeated turn may decide otherwise.
func (u *User) Bid(ctx context.Context, auction string, amount int64) error {
	_, highest, err := u.Auctions.Ref(auction).Highest(ctx)
	if shard.OutcomeOf(err) != shard.Executed {
		return shard.TryAgain(fmt.Errorf("ask for the highest bid: %w", err)) // the bid did not run
	}
	if err != nil {
		return fmt.Errorf("ask for the highest bid: %w", err)
	}
	if amount <= max(highest, u.Reserved[auction]) {
		return ErrTooLow
	}
	if amount > u.free()+u.Reserved[auction] {
		return ErrNotCovered
	}
	if err := u.Auctions.Tell(auction).Offer(ctx, u.ID, amount); err != nil { // sent with the commit
		return fmt.Errorf("offer %d: %w", amount, err)
	}
	if u.Reserved == nil {
		u.Reserved = map[string]int64{}
	}
	u.Reserved[auction] = amount
	return nil
}

// Release frees the money of a bid that lost. If the user has since made a higher bid at the auction,
// that bid's money stays reserved.
func (u *User) Release(_ context.Context, auction string, amount int64) error {
	if u.Reserved[auction] == amount {
		delete(u.Reserved, auction)
	}
	return nil
}

// Pay takes the money of a bid that won.
func (u *User) Pay(ctx context.Context, auction string, amount int64) error {
	u.Money -= amount
	u.Won = append(u.Won, auction)
	return u.Release(ctx, auction, amount)
}

// Free returns the money that no bid reserves.
//
//shard:read
func (u *User) Free(context.Context) (int64, error) { return u.free(), nil }

// An Account is a user's statement.
type Account struct {
	Money, Free int64
	Reserved    map[string]int64 `json:",omitempty"`
	Won         []string         `json:",omitempty"`
}

// Statement returns the user's Account.
//
//shard:read
func (u *User) Statement(context.Context) (Account, error) {
	return Account{u.Money, u.free(), u.Reserved, u.Won}, nil
}

func (u *User) free() int64 {
	free := u.Money
	for _, reserved := range u.Reserved {
		free -= reserved
	}
	return free
}

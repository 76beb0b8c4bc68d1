// Package auction has bids that reserve money at their bidders: calls between durable
// entities, which its tests interrupt by faults.
package auction

import (
	"context"
	"errors"
	"fmt"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// ErrTooLow is the answer to a bid that is not above the highest one.
//
//shard:error
var ErrTooLow = errors.New("there is a bid as high")

// An Auction is of one article, which the highest bid gets.
//
//shard:entity durable
type Auction struct {
	ID     string      `shard:"id"`
	High   int64       `shard:"state"` // the highest bid, in cents
	Bidder string      `shard:"state"` // who made it
	Users  *UserClient `shard:"-"`     // set by the factory
}

// Bid reserves the amount at the bidder, and frees the money of the bidder before.
func (a *Auction) Bid(ctx context.Context, bidder string, amount int64) error {
	if amount <= a.High {
		return ErrTooLow
	}
	if err := a.Users.Ref(bidder).Reserve(ctx, a.ID, amount); err != nil {
		return fmt.Errorf("reserve %d of %s: %w", amount, bidder, err)
	}
	if a.Bidder != "" && a.Bidder != bidder {
		if err := a.Users.Tell(a.Bidder).Release(ctx, a.ID); err != nil { // sent with the commit
			return fmt.Errorf("release the bid of %s: %w", a.Bidder, err)
		}
	}
	a.High, a.Bidder = amount, bidder
	return nil
}

// Highest returns the highest bid.
//
//shard:read
func (a *Auction) Highest(context.Context) (bidder string, amount int64, err error) {
	return a.Bidder, a.High, nil
}

// Host makes a node host auctions and users.
func Host(n *shard.Node) error {
	users := NewUserClient(n)
	if err := HostUser(n, func() *User { return &User{} }); err != nil {
		return err
	}
	return HostAuction(n, func() *Auction { return &Auction{Users: users} })
}

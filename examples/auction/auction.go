// Package auction has bids that reserve money at their bidders: durable entities change each other
// by tells, and tests interrupt them by faults.
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
	Bidder string      `shard:"state"` // of the highest bid
	Users  *UserClient `shard:"-"`     // set by the factory
}

// Offer takes a bid whose amount its bidder has reserved. It releases the money of the lower
// bid, which is this one or the highest so far.
func (a *Auction) Offer(ctx context.Context, bidder string, amount int64) error {
	lower, released := bidder, amount
	if amount > a.High {
		lower, released = a.Bidder, a.High
		a.High, a.Bidder = amount, bidder
	}
	if lower == "" {
		return nil // it is the first bid
	}
	if err := a.Users.Tell(lower).Release(ctx, a.ID, released); err != nil { // sent with the commit
		return fmt.Errorf("release the bid of %s: %w", lower, err)
	}
	return nil
}

// Highest returns the highest bid.
//
//shard:read
func (a *Auction) Highest(context.Context) (bidder string, amount int64, err error) {
	return a.Bidder, a.High, nil
}

// Host makes a node host auctions and users.
func Host(n *shard.Node) error { return HostWith(n) }

// HostWith makes a node host auctions and users with the options.
func HostWith(n *shard.Node, options ...shard.HostOption) error {
	users, auctions := NewUserClient(n), NewAuctionClient(n)
	if err := HostUser(n, func() *User { return &User{Auctions: auctions} }, options...); err != nil {
		return err
	}
	return HostAuction(n, func() *Auction { return &Auction{Users: users} }, options...)
}

// Package auction is an example of durable entities that change each other by tells: a bid reserves
// money at its bidder. Its tests interrupt bids by faults.
package auction

import (
	"context"
	"errors"
	"fmt"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// ErrTooLow is the error of a bid that is not above the highest bid.
//
//shard:error
var ErrTooLow = errors.New("the bid is not above the highest bid")

// An Auction sells one article to the highest bidder.
//
//shard:entity durable
type Auction struct {
	ID     string      `shard:"id"`
	High   int64       `shard:"state"` // the highest bid, in cents
	Bidder string      `shard:"state"` // of the highest bid
	Ends   time.Time   `shard:"state"`
	Closed bool        `shard:"state"`
	Users  *UserClient `shard:"-"` // set by the factory
}

// Open sets the time at which the auction ends, until which it takes offers.
func (a *Auction) Open(ctx context.Context, ends time.Time) error {
	a.Ends = ends
	return AuctionSelf(ctx, shard.At(ends)).Close(ctx) // committed with the change of Ends
}

// Close ends the auction: the highest bidder pays.
func (a *Auction) Close(ctx context.Context) error {
	if a.Closed || a.Bidder == "" {
		a.Closed = true
		return nil
	}
	a.Closed = true
	return a.Users.Tell(a.Bidder).Pay(ctx, a.ID, a.High)
}

// A Mail tells a bidder that another bid is higher.
type Mail struct {
	To, Auction string
	High        int64 // the highest bid
}

// Offer receives a bid whose amount its bidder has reserved. The lower of this bid and the highest
// bid so far loses: Offer releases its money and mails its bidder.
func (a *Auction) Offer(ctx context.Context, bidder string, amount int64) error {
	if a.Closed {
		return a.Users.Tell(bidder).Release(ctx, a.ID, amount)
	}
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
	return shard.Publish(ctx, "mails.outbid", Mail{To: lower, Auction: a.ID, High: a.High}) // with the commit, too
}

// Highest returns the highest bid and its bidder.
//
//shard:read
func (a *Auction) Highest(context.Context) (bidder string, amount int64, err error) {
	return a.Bidder, a.High, nil
}

// Host makes a node host auctions and users.
func Host(n *shard.Node) error { return HostWith(n) }

// HostWith makes a node host auctions and users with these options.
func HostWith(n *shard.Node, options ...shard.HostOption) error {
	users, auctions := NewUserClient(n), NewAuctionClient(n)
	if err := HostUser(n, func() *User { return &User{Auctions: auctions} }, options...); err != nil {
		return err
	}
	return HostAuction(n, func() *Auction { return &Auction{Users: users} }, options...)
}

// Package auction has the durable entities of an auction house. A bid reserves money at its bidder, a
// reminder closes an auction at its deadline, winners get mails by a stream, and payments come from
// another stream. Its tests interrupt all that by faults.
package auction

import (
	"context"
	"errors"
	"fmt"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// The errors of auctions that callers distinguish.
var (
	// ErrTooLow is the error of a bid that is not above the highest bid.
	//
	//shard:error
	ErrTooLow = errors.New("the bid is not above the highest bid")

	// ErrOver is the error of a bid at an auction that is closed.
	//
	//shard:error
	ErrOver = errors.New("the auction is over")

	// ErrTaken is the error of opening an auction under the name of another one.
	//
	//shard:error
	ErrTaken = errors.New("another auction has this name")
)

// Subjects on which auctions publish.
const (
	MailWon    = "mails.won"    // to the winner of an auction
	MailUnsold = "mails.unsold" // to the seller of an article without bids
	MailOutbid = "mails.outbid" // to the bidder of a bid that lost
	Live       = "live.auction" // the id of a changed auction, to those who listen
)

// An Auction sells one article to the highest bidder.
//
//shard:entity durable
type Auction struct {
	ID       string      `shard:"id"`
	High     int64       `shard:"state"` // the highest bid, in cents
	Bidder   string      `shard:"state"` // of the highest bid
	Ends     time.Time   `shard:"state"`
	Closed   bool        `shard:"state,index"`
	Seller   string      `shard:"state"`
	ClosedAt time.Time   `shard:"state"` // by the store's clock
	Closings int64       `shard:"state"` // how often Close ran
	Bids     int64       `shard:"state"` // how often Offer ran
	Users    *UserClient `shard:"-"`     // set by the factory
}

// Open sets the time at which the auction ends; it takes offers until then. Open does nothing if this
// seller has opened the auction before.
func (a *Auction) Open(ctx context.Context, seller string, ends time.Time) error {
	if !a.Ends.IsZero() {
		if a.Seller != seller {
			return ErrTaken
		}
		return nil
	}
	a.Seller, a.Ends = seller, ends
	if err := a.changed(ctx); err != nil {
		return err
	}
	return AuctionSelf(ctx, shard.At(ends)).Close(ctx) // committed with the change of Ends
}

// Close ends the auction: the highest bidder pays the seller, and gets a mail.
func (a *Auction) Close(ctx context.Context) error {
	if a.Closings++; a.Closed {
		return nil
	}
	a.Closed = true
	if fired, ok := shard.Fired(ctx); ok {
		a.ClosedAt = fired.Due.Add(fired.Late)
	}
	if err := a.changed(ctx); err != nil {
		return err
	}
	if a.Bidder == "" {
		return shard.Publish(ctx, MailUnsold, Mail{To: a.Seller, Auction: a.ID})
	}
	return errors.Join(
		a.Users.Tell(a.Bidder).Pay(ctx, a.ID, a.High), // the tells and the mail are in one commit
		a.Users.Tell(a.Seller).Deposit(ctx, a.High),
		shard.Publish(ctx, MailWon, Mail{To: a.Bidder, Auction: a.ID, Bid: a.High, High: a.High}),
	)
}

// A Mail tells somebody how an auction goes.
type Mail struct {
	To, Auction string
	Bid         int64 // the bid of To
	High        int64 // the highest bid
}

// Offer receives a bid whose amount its bidder has reserved. The lower of this and the highest bid
// loses; after the end, this bid loses. Offer releases the loser's money and mails its bidder.
func (a *Auction) Offer(ctx context.Context, bidder string, amount int64) error {
	a.Bids++
	lower, released := bidder, amount
	if !a.Closed && amount > a.High {
		lower, released = a.Bidder, a.High
		a.High, a.Bidder = amount, bidder
	}
	if err := a.changed(ctx); err != nil {
		return err
	}
	if lower == "" {
		return nil // it is the first bid
	}
	if err := a.Users.Tell(lower).Release(ctx, a.ID, released); err != nil { // sent with the commit
		return fmt.Errorf("release the bid of %s: %w", lower, err)
	}
	return shard.Publish(ctx, MailOutbid, Mail{To: lower, Auction: a.ID, Bid: released, High: a.High}) // with the commit, too
}

// changed notifies the people who watch the auction now. They then read the state.
func (a *Auction) changed(ctx context.Context) error {
	return shard.Publish(ctx, Live, []byte(a.ID), shard.BestEffort)
}

// Highest returns the highest bid and its bidder. It fails with ErrOver when the auction is closed.
//
//shard:read
func (a *Auction) Highest(context.Context) (bidder string, amount int64, err error) {
	if a.Closed {
		return "", 0, ErrOver
	}
	return a.Bidder, a.High, nil
}

// A View is an auction's public state. It has no Seller if nobody has opened the auction.
type View struct {
	Seller   string
	Bidder   string `json:",omitempty"` // of the highest bid
	High     int64
	Ends     time.Time
	Closed   bool
	ClosedAt time.Time `json:",omitzero"`
	Bids     int64
	Closings int64 `json:"-"`
}

// Show returns the auction's View.
//
//shard:read
func (a *Auction) Show(context.Context) (View, error) {
	return View{a.Seller, a.Bidder, a.High, a.Ends, a.Closed, a.ClosedAt, a.Bids, a.Closings}, nil
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

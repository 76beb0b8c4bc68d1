package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/examples/auction/auction"
)

// lateness is how long after its deadline an auction may close.
const lateness = 10 * time.Second

// books records the requests of a load, and their effects.
type books struct {
	bids  map[string]int64        // answered bids at each auction
	paid  map[string]auction.Paid // payments by id
	sent  map[string]int64        // messages of each payment in the stream
	away  []span                  // when nobody could close auctions
	live  int64                   // changes that a watcher got
	again int64                   // repeated requests

	auctions map[string]auction.View
	users    map[string]auction.Account
	received map[string]int64 // messages of each payment that were applied
	mails    []mail
}

// A mail is a message of the stream of mails.
type mail struct {
	auction.Mail
	subject string
	at      time.Time // when the stream stored it
}

// String returns the figures of a run.
func (b books) String() string {
	var bids int64
	for _, n := range b.bids {
		bids += n
	}
	return fmt.Sprintf("auctions=%d bids=%d payments=%d mails=%d live=%d repeated=%d",
		len(b.auctions), bids, len(b.paid), len(b.mails), b.live, b.again)
}

// A verdict says whether books balance.
type verdict struct {
	lost, doubled, late int64
	wrong               []string // a line for each fault
}

// String returns the last line that a run prints.
func (v verdict) String() string {
	state := "balanced"
	if len(v.wrong) > 0 {
		state = "wrong"
	}
	return fmt.Sprintf("books=%s lost=%d doubled=%d late=%d", state, v.lost, v.doubled, v.late)
}

func (v *verdict) failf(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// count records a fault unless got equals want: how often the thing named by what occurred, and how
// often it should have occurred.
func (v *verdict) count(what string, got, want int64) {
	v.lost += max(want-got, 0)
	v.doubled += max(got-want, 0)
	if got != want {
		v.failf("%s: %d, want %d", what, got, want)
	}
}

// check compares requests and effects. Each auction closes once, neither before its deadline nor late,
// with one mail. Each winner pays once. Each bid, payment and mail counts once. No money is missing.
func (b books) check() (v verdict) {
	money := map[string]int64{} // what each user should have
	won := map[string][]string{}
	for _, p := range b.paid {
		money[p.User] += p.Amount
	}
	ends, outbid := map[string][]mail{}, map[string]int64{}
	type loser struct {
		auction, to string
		bid         int64
	}
	losers := map[loser]int64{}
	for _, m := range b.mails {
		if m.subject == auction.MailOutbid {
			outbid[m.Auction]++
			losers[loser{m.Auction, m.To, m.Bid}]++
			continue
		}
		ends[m.Auction] = append(ends[m.Auction], m)
	}
	for l, n := range losers {
		if n > 1 {
			v.failf("%s got %d mails for the bid of %d at %s", l.to, n, l.bid, l.auction) // counted below
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.auctions)) {
		a := b.auctions[id]
		v.count(id+": closed", a.Closings, 1)
		v.count(id+": bids", a.Bids, b.bids[id])
		v.count(id+": mails of the end", int64(len(ends[id])), 1)
		subject, to, lost := auction.MailUnsold, a.Seller, a.Bids
		if a.Bidder != "" {
			subject, to, lost = auction.MailWon, a.Bidder, a.Bids-1
			won[a.Bidder] = append(won[a.Bidder], id)
			money[a.Bidder] -= a.High
			money[a.Seller] += a.High
		}
		v.count(id+": mails to those who lost", outbid[id], lost)
		if a.Closings > 0 && a.ClosedAt.Before(a.Ends) {
			v.failf("%s: closed %v before its deadline", id, a.Ends.Sub(a.ClosedAt))
		}
		for _, m := range ends[id] {
			if m.subject != subject || m.To != to || m.Bid != a.High {
				v.failf("%s: the mail is %s to %s with bid %d, want %s to %s with bid %d", id, m.subject, m.To, m.Bid, subject, to, a.High)
			}
			if m.at.Before(a.Ends) {
				v.failf("%s: its mail came %v before its deadline", id, a.Ends.Sub(m.at))
			}
			late := m.at.Sub(a.Ends)
			for _, s := range b.away {
				late -= s.overlap(a.Ends, m.at)
			}
			if late > lateness {
				v.late++
				v.failf("%s: closed %v late", id, late.Round(time.Millisecond))
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.sent)) {
		v.count(id+": messages", b.received[id], b.sent[id])
	}
	for _, name := range slices.Sorted(maps.Keys(b.users)) {
		u := b.users[name]
		bought := map[string]int64{}
		for _, id := range u.Won {
			bought[id]++
		}
		for _, id := range won[name] {
			v.count(fmt.Sprintf("%s: payments for %s", name, id), bought[id], 1)
			delete(bought, id)
		}
		if len(bought) > 0 {
			v.failf("%s paid for %v without having won", name, slices.Sorted(maps.Keys(bought)))
		}
		if len(u.Reserved) > 0 || u.Free != u.Money {
			v.failf("%s has money reserved after the end: %v", name, u.Reserved)
		}
		if u.Money != money[name] {
			v.failf("%s has %d, want %d", name, u.Money, money[name])
		}
		delete(money, name)
	}
	for name := range money {
		v.failf("%s is missing", name)
	}
	if b.live == 0 {
		v.failf("nobody was notified of a change")
	}
	return v
}

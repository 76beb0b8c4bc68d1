package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/auction/auction"
)

// TestMain runs the tests or, if the program has started this process in a role, that role.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "auction:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestRun runs the program with a shorter load.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	var out, progress bytes.Buffer
	if err := run(t.Context(), []string{"-seconds", "6"}, nil, &out, &progress); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &progress)
	}
	if got := out.String(); !strings.HasSuffix(got, "\nbooks=balanced lost=0 doubled=0 late=0\n") || strings.Count(progress.String(), "was killed") != 6 {
		t.Errorf("got %q, want balanced books and six kills\n%s", got, progress.String())
	}
}

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// balanced returns books without a fault: ann bought the vase of cleo for 60, and bob lost.
func balanced() books {
	return books{
		bids: map[string]int64{"vase": 2, "lamp": 0}, live: 1,
		paid:     map[string]auction.Paid{"p1": {ID: "p1", User: "ann", Amount: 100}, "p2": {ID: "p2", User: "bob", Amount: 50}},
		sent:     map[string]int64{"p1": 2, "p2": 1},
		received: map[string]int64{"p1": 2, "p2": 1},
		auctions: map[string]auction.View{
			"vase": {Seller: "cleo", Bidder: "ann", High: 60, Ends: noon, Closed: true, ClosedAt: noon, Bids: 2, Closings: 1},
			"lamp": {Seller: "cleo", Ends: noon, Closed: true, ClosedAt: noon, Closings: 1},
		},
		users: map[string]auction.Account{"ann": {Money: 40, Free: 40, Won: []string{"vase"}}, "bob": {Money: 50, Free: 50}, "cleo": {Money: 60, Free: 60}},
		mails: []mail{
			{auction.Mail{To: "bob", Auction: "vase", Bid: 50, High: 60}, auction.MailOutbid, noon.Add(-time.Minute)},
			{auction.Mail{To: "ann", Auction: "vase", Bid: 60, High: 60}, auction.MailWon, noon.Add(time.Second)},
			{auction.Mail{To: "cleo", Auction: "lamp"}, auction.MailUnsold, noon.Add(time.Second)},
		},
	}
}

// TestBooks damages the books in each way, and checks the verdict.
func TestBooks(t *testing.T) {
	vase := func(change func(*auction.View)) func(*books) {
		return func(b *books) {
			v := b.auctions["vase"]
			change(&v)
			b.auctions["vase"] = v
		}
	}
	user := func(name string, change func(*auction.Account)) func(*books) {
		return func(b *books) {
			u := b.users[name]
			change(&u)
			b.users[name] = u
		}
	}
	for _, test := range []struct {
		name   string
		damage func(*books)
		want   string
		why    string // a part of a line
	}{
		{"nothing", func(*books) {}, "books=balanced lost=0 doubled=0 late=0", ""},
		{"not closed", vase(func(v *auction.View) { v.Closings = 0 }), "books=wrong lost=1 doubled=0 late=0", "vase: closed: 0, want 1"},
		{"closed twice", vase(func(v *auction.View) { v.Closings = 2 }), "books=wrong lost=0 doubled=1 late=0", "vase: closed: 2, want 1"},
		{"closed early", vase(func(v *auction.View) { v.ClosedAt = noon.Add(-1) }), "books=wrong lost=0 doubled=0 late=0", "vase: closed 1ns before its deadline"},
		{"mailed early", func(b *books) { b.mails[2].at = noon.Add(-1) }, "books=wrong lost=0 doubled=0 late=0", "lamp: its mail came 1ns before its deadline"},
		{"closed late", func(b *books) { b.mails[1].at = noon.Add(lateness + 1) }, "books=wrong lost=0 doubled=0 late=1", "vase: closed 10s late"},
		{"late while nobody was there", func(b *books) {
			b.mails[1].at = noon.Add(lateness + time.Second)
			b.away = []span{{noon.Add(-time.Second), noon.Add(time.Second)}}
		}, "books=balanced lost=0 doubled=0 late=0", ""},
		{"away at another time", func(b *books) {
			b.mails[1].at = noon.Add(lateness + time.Second)
			b.away = []span{{noon.Add(-time.Second), noon}, {noon.Add(time.Minute), noon.Add(time.Hour)}}
		}, "books=wrong lost=0 doubled=0 late=1", "vase: closed 11s late"},
		{"a bid lost", func(b *books) { b.bids["vase"] = 3 }, "books=wrong lost=1 doubled=0 late=0", "vase: bids: 2, want 3"},
		{"a bid twice", func(b *books) { b.bids["vase"] = 1 }, "books=wrong lost=0 doubled=1 late=0", "vase: bids: 2, want 1"},
		{"no mail for the winner", func(b *books) { b.mails = append(b.mails[:1], b.mails[2]) }, "books=wrong lost=1 doubled=0 late=0", "vase: mails of the end: 0, want 1"},
		{"two mails for the winner", func(b *books) { b.mails = append(b.mails, b.mails[1]) }, "books=wrong lost=0 doubled=1 late=0", "vase: mails of the end: 2, want 1"},
		{"a mail for another", func(b *books) { b.mails[1].To = "bob" }, "books=wrong lost=0 doubled=0 late=0", "mails.won to bob"},
		{"two mails for the loser", func(b *books) { b.mails = append(b.mails, b.mails[0]) }, "books=wrong lost=0 doubled=1 late=0", "bob got 2 mails"},
		{"no mail for the loser", func(b *books) { b.mails = b.mails[1:] }, "books=wrong lost=1 doubled=0 late=0", "vase: mails to those who lost: 0, want 1"},
		{"a message lost", func(b *books) { b.received["p1"] = 1 }, "books=wrong lost=1 doubled=0 late=0", "p1: messages: 1, want 2"},
		{"a message twice", func(b *books) { b.received["p2"] = 2 }, "books=wrong lost=0 doubled=1 late=0", "p2: messages: 2, want 1"},
		{"not paid", user("ann", func(a *auction.Account) { *a = auction.Account{Money: 100, Free: 100} }), "books=wrong lost=1 doubled=0 late=0", "ann: payments for vase: 0, want 1"},
		{"paid twice", user("ann", func(a *auction.Account) { *a = auction.Account{Money: -20, Free: -20, Won: []string{"vase", "vase"}} }), "books=wrong lost=0 doubled=1 late=0", "ann: payments for vase: 2, want 1"},
		{"paid for another", user("bob", func(a *auction.Account) { a.Won = []string{"lamp"} }), "books=wrong lost=0 doubled=0 late=0", "bob paid for [lamp]"},
		{"reserved", user("bob", func(a *auction.Account) { a.Reserved, a.Free = map[string]int64{"vase": 50}, 0 }), "books=wrong lost=0 doubled=0 late=0", "bob has money reserved"},
		{"money", user("cleo", func(a *auction.Account) { a.Money, a.Free = 61, 61 }), "books=wrong lost=0 doubled=0 late=0", "cleo has 61, want 60"},
		{"a user", func(b *books) { delete(b.users, "cleo") }, "books=wrong lost=0 doubled=0 late=0", "cleo is missing"},
		{"no changes", func(b *books) { b.live = 0 }, "books=wrong lost=0 doubled=0 late=0", "nobody was notified"},
	} {
		b := balanced()
		test.damage(&b)
		v := b.check()
		if got := fmt.Sprint(v); got != test.want || !strings.Contains(strings.Join(v.wrong, "\n"), test.why) {
			t.Errorf("%s: got %s and %q, want %s and %q", test.name, got, v.wrong, test.want, test.why)
		}
	}
}

func TestOverlap(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	s := span{at(10), at(20)}
	for _, test := range []struct{ from, to, want int }{
		{0, 5, 0}, {0, 10, 0}, {0, 15, 5}, {0, 30, 10}, {12, 15, 3}, {15, 30, 5}, {20, 30, 0}, {25, 30, 0},
	} {
		if got := s.overlap(at(test.from), at(test.to)); got != time.Duration(test.want)*time.Second {
			t.Errorf("%d to %d: got %v, want %ds", test.from, test.to, got, test.want)
		}
	}
}

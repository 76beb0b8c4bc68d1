package auction_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/auction/auction"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// TestAuction tests an auction alone. A stand-in for the cluster records its tells and mails.
func TestAuction(t *testing.T) {
	users := shardtest.NewCaller()
	vase := &auction.Auction{ID: "vase", Users: auction.NewUserClient(users)}
	for _, offer := range []struct {
		bidder string
		amount int64
	}{{"ann", 60}, {"bob", 50}, {"bob", 70}} {
		if err := vase.Offer(users.Context(t.Context()), offer.bidder, offer.amount); err != nil {
			t.Fatal(err)
		}
	}
	want := "[tell User/bob.Release tell User/ann.Release]"
	if got := fmt.Sprint(users.Calls()); got != want || vase.Bidder != "bob" {
		t.Errorf("got calls %s, and %s has the vase; want %s, and bob", got, vase.Bidder, want)
	}
	var mails []shardtest.Message
	for _, m := range users.Published() {
		if !m.BestEffort { // those are for people who watch
			mails = append(mails, m)
		}
	}
	want = `[mails.outbid {"To":"bob","Auction":"vase","Bid":50,"High":60} mails.outbid {"To":"ann","Auction":"vase","Bid":60,"High":70}]`
	if got := fmt.Sprint(mails); got != want {
		t.Errorf("published %s, want %s", got, want)
	}
}

// TestBid tests a user alone, with structs in place of the auctions.
func TestBid(t *testing.T) {
	auctions := shardtest.NewCaller()
	auctions.Put("Auction", "vase", &auction.Auction{ID: "vase", High: 50, Bidder: "bob"})
	ann := &auction.User{ID: "ann", Money: 100, Auctions: auction.NewAuctionClient(auctions)}

	if err := ann.Bid(t.Context(), "vase", 50); !errors.Is(err, auction.ErrTooLow) {
		t.Errorf("got %v, want ErrTooLow", err)
	}
	if err := ann.Bid(t.Context(), "vase", 101); !errors.Is(err, auction.ErrNotCovered) {
		t.Errorf("got %v, want ErrNotCovered", err)
	}
	if err := ann.Bid(t.Context(), "vase", 60); err != nil {
		t.Fatal(err)
	}
	auctions.Fail("Auction", "vase", shard.Unknown, shard.ErrLost)
	if err := ann.Bid(t.Context(), "vase", 80); !errors.Is(err, shard.ErrLost) || ann.Reserved["vase"] != 60 {
		t.Errorf("got %v and %d reserved, want ErrLost and 60", err, ann.Reserved["vase"])
	}
	want := "[Auction/vase.Highest Auction/vase.Highest Auction/vase.Highest tell Auction/vase.Offer Auction/vase.Highest]"
	if got := fmt.Sprint(auctions.Calls()); got != want {
		t.Errorf("got calls %s, want %s", got, want)
	}
}

// TestBidSurvivesAKill kills the bidder's node in the middle of a bid, in virtual time. The bid
// must still be made, and reserve the money once.
func TestBidSurvivesAKill(t *testing.T) {
	const latency = 10 * time.Millisecond
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ann, vase := auction.NewUserClient(c.Client()).Ref("ann"), auction.NewAuctionClient(c.Client()).Ref("vase")
		if err := errors.Join(ann.Deposit(t.Context(), 100), ann.Bid(t.Context(), "vase", 10)); err != nil {
			t.Fatal(err)
		}
		c.Move("User", "ann", "n1")
		c.Move("Auction", "vase", "n2")
		done := make(chan error)
		go func() { done <- ann.Bid(t.Context(), "vase", 60) }()
		c.Advance(5 * latency / 2) // client to n1, n1 to n2: the highest bid is read, and the answer is on its way
		onN1 := auction.NewUserClient(c.Node("n1")).Ref("ann", shard.Timeout(time.Microsecond))
		if _, err := onN1.Free(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("ann has no turn at the moment of the kill: %v", err)
		}
		c.Kill("n1")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		c.Until("ann has the vase", func() bool {
			bidder, high, err := vase.Highest(t.Context())
			return err == nil && bidder == "ann" && high == 60
		})
		if free, err := ann.Free(t.Context()); err != nil || free != 40 {
			t.Errorf("got %d free, %v; want 40", free, err)
		}
	}, shardtest.Nodes(3), shardtest.Host(auction.Host), shardtest.Latency(latency, latency))
}

// TestOpen opens an auction twice, as a repeated request does, and lets another seller try it.
func TestOpen(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		auctions := auction.NewAuctionClient(c.Client())
		vase, ends := auctions.Ref("vase"), time.Now().Add(time.Hour)
		if err := errors.Join(vase.Open(t.Context(), "cleo", ends), vase.Open(t.Context(), "cleo", ends)); err != nil {
			t.Fatal(err)
		}
		if err := vase.Open(t.Context(), "ann", ends); !errors.Is(err, auction.ErrTaken) {
			t.Errorf("got %v, want ErrTaken", err)
		}
		if all, err := auctions.Scheduled(t.Context(), "vase"); err != nil || len(all) != 1 {
			t.Errorf("got reminders %v, %v; want one", all, err)
		}
	}, shardtest.Host(auction.Host))
}

// TestClose lets a day pass: the auction ends once, at its deadline, its highest bidder pays the
// seller and gets a mail, and later bids and offers are refused.
func TestClose(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx, ends := t.Context(), time.Now().Add(24*time.Hour)
		c.Store().SetStream(0, "mails.>")
		people, vase := auction.NewUserClient(c.Client()), auction.NewAuctionClient(c.Client()).Ref("vase")
		if err := errors.Join(
			people.Ref("ann").Deposit(ctx, 100), people.Ref("bob").Deposit(ctx, 100),
			vase.Open(ctx, "cleo", ends), people.Ref("ann").Bid(ctx, "vase", 60),
		); err != nil {
			t.Fatal(err)
		}
		if v, err := vase.Show(ctx); err != nil || v.Closed {
			t.Errorf("got %+v, %v before the deadline; want an open auction", v, err)
		}
		c.SkipTime(25 * time.Hour)
		c.Until("it is closed", func() bool {
			v, err := vase.Show(ctx)
			return err == nil && v.Closed
		})
		if err := people.Ref("bob").Bid(ctx, "vase", 80); !errors.Is(err, auction.ErrOver) {
			t.Errorf("got %v for a late bid, want ErrOver", err)
		}
		if err := vase.Offer(ctx, "bob", 90); err != nil { // his bid was on its way
			t.Error(err)
		}
		money := func(user string) auction.Account {
			a, err := people.Ref(user).Statement(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		c.Until("ann has paid cleo", func() bool { return money("ann").Free == 40 && money("cleo").Free == 60 })
		if got := money("ann"); fmt.Sprint(got.Won, got.Reserved) != "[vase] map[]" {
			t.Errorf("ann has %+v, want the vase, and nothing reserved", got)
		}
		if v, err := vase.Show(ctx); err != nil || v.Bidder != "ann" || v.Closings != 1 || v.Bids != 2 || v.ClosedAt.Before(ends) {
			t.Errorf("got %+v, %v; want one close after %v, and ann", v, err, ends)
		}
		want := `[{"To":"ann","Auction":"vase","Bid":60,"High":60} {"To":"bob","Auction":"vase","Bid":90,"High":60}]`
		c.Until("both have mails", func() bool { return len(c.Store().Published("mails.>")) == 2 })
		var got []string
		for _, m := range c.Store().Published("mails.>") {
			got = append(got, string(m.Data))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("got mails %s, want %s", got, want)
		}
	}, shardtest.Nodes(3), shardtest.Host(auction.Host))
}

// TestCloseWithoutACall kills all nodes before the deadline. Afterwards the auction must close
// although nobody calls it.
func TestCloseWithoutACall(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		c.Store().SetStream(0, "mails.>")
		vase := auction.NewAuctionClient(c.Client()).Ref("vase")
		if err := errors.Join(vase.Open(t.Context(), "cleo", time.Now().Add(10*time.Second)), vase.Offer(t.Context(), "ann", 60)); err != nil {
			t.Fatal(err)
		}
		for _, node := range []string{"n1", "n2", "n3"} {
			c.Kill(node)
		}
		c.Advance(time.Minute)
		c.Start("n1")
		c.Until("ann has a mail", func() bool { return len(c.Store().Published(auction.MailWon)) == 1 })
	}, shardtest.Nodes(3), shardtest.Host(auction.Host))
}

// TestMailSurvivesAKill kills the auction's node while the store takes no messages. The next home
// must publish the mail, once.
func TestMailSurvivesAKill(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		c.Store().SetStream(0) // it has no subjects
		vase := auction.NewAuctionClient(c.Client()).Ref("vase")
		if err := errors.Join(vase.Offer(t.Context(), "ann", 60), vase.Offer(t.Context(), "bob", 70)); err != nil {
			t.Fatal(err)
		}
		c.Kill(c.Home("Auction", "vase"))
		c.Store().SetStream(0, "mails.>")
		c.Until("ann has a mail", func() bool { return len(c.Store().Published("mails.outbid")) > 0 })
		c.Advance(time.Minute)
		for _, m := range c.Store().Published(">")[1:] {
			t.Errorf("got %s: %s, want no other message", m.Subject, m.Data)
		}
	}, shardtest.Host(auction.Host))
}

// TestMoneyInAStorm lets users bid against each other during half a minute of random faults, with
// several seeds. In the end, the reserved money must be that of the highest bids.
func TestMoneyInAStorm(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { testMoneyInAStorm(t, seed) })
	}
}

func testMoneyInAStorm(t *testing.T, seed uint64) {
	users, articles := []string{"ann", "bob", "cleo"}, []string{"vase", "lamp"}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		auctions, people := auction.NewAuctionClient(c.Client()), auction.NewUserClient(c.Client())
		for _, user := range users {
			if err := people.Ref(user).Deposit(t.Context(), 1000); err != nil {
				t.Fatal(err)
			}
		}
		var bidding sync.WaitGroup
		for i, user := range users {
			bidding.Go(func() {
				for n := range int64(20) {
					article := articles[(int(n)+i)%len(articles)]
					_ = people.Ref(user, shard.Timeout(time.Hour)).Bid(t.Context(), article, 10*n+int64(i)) // may be too low
					time.Sleep(time.Second)
				}
			})
		}
		c.Storm(30 * time.Second)
		bidding.Wait()
		c.Settle()
		c.Until("the highest bids, and no others, reserve money", func() bool {
			reserved := map[string]int64{}
			for _, article := range articles {
				bidder, high, err := auctions.Ref(article).Highest(t.Context())
				if err != nil {
					return false
				}
				reserved[bidder] += high
			}
			for _, user := range users {
				if free, err := people.Ref(user).Free(t.Context()); err != nil || free != 1000-reserved[user] {
					return false
				}
			}
			return true
		})
	}, shardtest.Host(auction.Host), shardtest.Latency(time.Millisecond, 20*time.Millisecond), shardtest.Seed(seed))
}

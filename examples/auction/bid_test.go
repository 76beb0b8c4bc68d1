package auction_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/auction"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// TestUser tests an entity alone: it is a struct.
func TestUser(t *testing.T) {
	ann := &auction.User{Money: 100}
	if err := ann.Reserve(t.Context(), "vase", 60); err != nil {
		t.Fatal(err)
	}
	if err := ann.Reserve(t.Context(), "lamp", 41); !errors.Is(err, auction.ErrNotCovered) {
		t.Errorf("got %v, want ErrNotCovered", err)
	}
}

// TestBid tests an entity that calls others, which are structs of the test.
func TestBid(t *testing.T) {
	ann, bob := &auction.User{Money: 100}, &auction.User{Money: 100}
	users := shardtest.NewCaller()
	users.Put("User", "ann", ann)
	users.Put("User", "bob", bob)
	vase := &auction.Auction{ID: "vase", Users: auction.NewUserClient(users)}

	if err := vase.Bid(t.Context(), "ann", 60); err != nil {
		t.Fatal(err)
	}
	if err := vase.Bid(t.Context(), "bob", 70); err != nil {
		t.Fatal(err)
	}
	users.Fail("User", "ann", shard.Unknown, shard.ErrLost)
	if err := vase.Bid(t.Context(), "ann", 80); !errors.Is(err, shard.ErrLost) || vase.Bidder != "bob" {
		t.Errorf("got %v and %s, want ErrLost and bob", err, vase.Bidder)
	}
	want := "[User/ann.Reserve User/bob.Reserve tell User/ann.Release User/ann.Reserve]"
	if got := fmt.Sprint(users.Calls()); got != want {
		t.Errorf("got calls %s, want %s", got, want)
	}
}

// TestBidSurvivesAKill kills the auction's node in the middle of a bid, in virtual time: the
// bid is made all the same, and reserves the money once.
func TestBidSurvivesAKill(t *testing.T) {
	const latency = 10 * time.Millisecond
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ann, vase := auction.NewUserClient(c.Client()).Ref("ann"), auction.NewAuctionClient(c.Client()).Ref("vase")
		if err := errors.Join(ann.Deposit(t.Context(), 100), vase.Bid(t.Context(), "ann", 10)); err != nil {
			t.Fatal(err)
		}
		c.Move("Auction", "vase", "n1")
		c.Move("User", "ann", "n2")
		done := make(chan error)
		go func() { done <- vase.Bid(t.Context(), "ann", 60) }()
		c.Advance(5 * latency / 2) // client to n1, n1 to n2: ann has reserved, and the answer is on its way
		c.Kill("n1")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		bidder, high, err := vase.Highest(t.Context())
		free, err2 := ann.Free(t.Context())
		if err := errors.Join(err, err2); err != nil || bidder != "ann" || high != 60 || free != 40 {
			t.Errorf("got %s with %d, %d free, %v; want ann with 60, 40 free", bidder, high, free, err)
		}
	}, shardtest.Nodes(3), shardtest.Host(auction.Host), shardtest.Latency(latency, latency))
}

// TestMoneyInAStorm has users bid against each other for half a minute of random faults, and
// then compares what is reserved with the highest bids. SHARDTEST_SEED replays a failure.
func TestMoneyInAStorm(t *testing.T) {
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
					_ = auctions.Ref(article, shard.Timeout(time.Hour)).Bid(t.Context(), user, 10*n+int64(i)) // may be too low
					time.Sleep(time.Second)
				}
			})
		}
		c.Storm(30 * time.Second)
		bidding.Wait()
		c.Settle()
		reserved := map[string]int64{}
		for _, article := range articles {
			bidder, high, err := auctions.Ref(article).Highest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			reserved[bidder] += high
		}
		for _, user := range users {
			c.Until(user+" has what no bid reserves", func() bool {
				free, err := people.Ref(user).Free(t.Context())
				return err == nil && free == 1000-reserved[user]
			})
		}
	}, shardtest.Host(auction.Host), shardtest.Latency(time.Millisecond, 20*time.Millisecond), shardtest.Seed(3))
}

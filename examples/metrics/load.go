package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/examples/auction/auction"
	shard "github.com/shardgen/shardgen/runtime"
)

type tally struct {
	mu      sync.Mutex
	Calls   int                `json:"calls"`
	Failed  int                `json:"failed"` // calls that failed for other reasons than an error of the entity
	Methods map[string]*method `json:"methods"`
}

type method struct {
	Outcomes map[string]int `json:"outcomes"` // by shard.Outcome; "refused" is an error of the entity
	Seconds  []float64      `json:"seconds"`  // how long each call took; at most the first 100,000
}

// count counts a call with its duration and error.
func (t *tally) count(name string, took time.Duration, err error) {
	var refused *shard.EntityError // the entity's own error, even if its cause is a failed call of the entity
	own := errors.As(err, &refused) && !refused.Panic
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.Methods[name]
	if m == nil {
		m = &method{Outcomes: map[string]int{}}
		t.Methods[name] = m
	}
	outcome := shard.OutcomeOf(err).String()
	if own {
		outcome = "refused"
	}
	t.Calls++
	m.Outcomes[outcome]++
	if len(m.Seconds) < 100_000 {
		m.Seconds = append(m.Seconds, took.Seconds())
	}
	if err != nil && !own {
		t.Failed++
	}
}

// bid makes deposits, reads of the highest bid, and bids beyond the user's money. It makes o.calls
// calls. If o.calls is 0, it makes calls at o.rate, without waiting for answers. It returns when
// all calls have ended.
func bid(ctx context.Context, auctions *auction.AuctionClient, users *auction.UserClient, o options) *tally {
	t := &tally{Methods: map[string]*method{}}
	var calls sync.WaitGroup
	defer calls.Wait()
	if o.calls > 0 {
		const callers = 256
		for caller := range callers {
			calls.Go(func() {
				for i := caller; i < o.calls; i += callers {
					one(ctx, t, auctions, users, o, i/callers+caller)
				}
			})
		}
		return t
	}
	ctx, cancel := context.WithTimeout(ctx, o.lasts)
	defer cancel()
	ticks := time.NewTicker(time.Second / time.Duration(o.rate))
	defer ticks.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return t
		case <-ticks.C:
		}
		calls.Go(func() { one(context.WithoutCancel(ctx), t, auctions, users, o, i) })
	}
}

func one(ctx context.Context, t *tally, auctions *auction.AuctionClient, users *auction.UserClient, o options, i int) {
	var within []shard.CallOption
	if o.timeout > 0 {
		within = append(within, shard.Timeout(o.timeout))
	}
	user, lot, begin := users.Ref(fmt.Sprint("user-", i%20), within...), fmt.Sprint("lot-", i%7), time.Now()
	switch i % 4 {
	case 0, 1:
		err := user.Deposit(ctx, 10)
		t.count("User/Deposit", time.Since(begin), err)
	case 2:
		_, _, err := auctions.Ref(lot, within...).Highest(ctx)
		t.count("Auction/Highest", time.Since(begin), err)
	default:
		err := user.Bid(ctx, lot, 1<<40)
		t.count("User/Bid", time.Since(begin), err)
	}
}

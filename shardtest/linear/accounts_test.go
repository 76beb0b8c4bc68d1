package linear_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/sim/durable"
	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
	"github.com/shardgen/shardgen/shardtest/linear"
	"github.com/shardgen/shardgen/transport/memory"
)

// The simulators drive the cores one step at a time, under a lock. Local calls of idle entities,
// and tells to these, bypass that lock; this test and the stress tests of package region cover
// them.
//
// Twenty runs of a million operations each take about ten minutes:
//
//	go test -C shardtest/linear -run TestCallsAreLinearizable -count 20 -timeout 60m . -operations 1000000

// input is one operation on an account. A question for the balance has the amount 0.
type input struct {
	id     string
	amount int64
	tell   bool // a tell, which has no answer
}

// An operation is one operation of a caller. Its answer is the balance.
type operation = shardtest.Operation[input, int64]

// balance is the balance of an account. While it is not known, no operation has been made.
type balance struct {
	known  bool
	amount int64
}

// balances returns the model of accounts with the given first balances.
func balances(begin map[string]int64) linear.Model[input, int64, balance] {
	return linear.Model[input, int64, balance]{
		Entity: func(in input) string { return in.id },
		Apply: func(s balance, in input) (balance, int64, error) {
			if !s.known {
				s = balance{known: true, amount: begin[in.id]}
			}
			s.amount += in.amount
			if in.tell {
				return s, 0, nil
			}
			return s, s.amount, nil
		},
	}
}

// operations returns what callers saw of durable accounts. An operation without an answer may have
// been applied at any time after its call, or not at all.
func operations(history []durable.Operation) (all []operation) {
	for _, op := range history {
		o := operation{In: input{id: op.Account, amount: op.Change}, Begin: int64(op.Call)}
		if op.Read {
			o.In.amount = 0
		}
		switch {
		case op.Failed || op.Read && !op.Answered:
			continue
		case op.Answered:
			o.Out, o.End = op.Balance, int64(op.Return)
		}
		all = append(all, o)
	}
	return all
}

const (
	patience = 2 * time.Minute // bounds operations that would hang
	actions  = 600             // operations of each caller in one history
	moves    = 40              // how often a member joins and leaves
)

var least = flag.Int("operations", 0, "how many operations TestCallsAreLinearizable records, at least")

// TestCallsAreLinearizable records histories while a second member joins and leaves, and shards of
// accounts move. There are no calls between two histories, so each begins with the balances at the
// end of the last one.
func TestCallsAreLinearizable(t *testing.T) {
	broker := memory.NewBroker(memory.Options{})
	config := func(name string) shard.Config {
		return shard.Config{
			Cluster: "linear", Name: name, Transport: broker.Transport(), CallTimeout: patience / 4,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		}
	}
	// A thousand operations took about 20 ms.
	ctx, cancel := context.WithTimeout(context.Background(), patience+time.Duration(*least)*time.Millisecond)
	defer cancel()
	member := func(name string) (*shard.Node, error) {
		n := shard.New(config(name))
		err := fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} })
		return n, errors.Join(err, n.Start(ctx))
	}
	stays, err := member("stays")
	require.NoError(t, err)
	defer func() { require.NoError(t, stays.Close()) }()
	// The first call places all shards: later members get theirs by moves.
	_, err = fixture.NewAccountClient(stays).Ref(ids[0]).Get(ctx)
	require.NoError(t, err)
	outside, err := shard.Dial(ctx, config("outside"))
	require.NoError(t, err)
	defer func() { require.NoError(t, outside.Close()) }()

	moved := make(chan error, 1) // all members have come and gone
	var operations atomic.Int64
	go func() {
		var err error
		for i := 0; err == nil && (i < moves || operations.Load() < int64(*least)); i++ {
			var comes *shard.Node
			comes, err = member(fmt.Sprint("comes-", i))
			err = errors.Join(err, awaitShards(ctx, comes), comes.Shutdown(ctx))
		}
		moved <- err
	}()
	var callers []*caller
	for i, c := range []shard.Caller{stays, stays, stays, stays, outside, outside} {
		callers = append(callers, newCaller(c, i))
	}
	begin, histories := map[string]int64{}, 0
	for done := false; !done; histories++ {
		select {
		case err := <-moved:
			require.NoError(t, err)
			done = true // one more history without moves
		default:
		}
		history := record(ctx, t, callers)
		operations.Add(int64(len(history)))
		linear.Check(t, balances(begin), history)
		for _, id := range ids {
			begin[id], err = fixture.NewAccountClient(stays).Ref(id).Get(ctx)
			require.NoError(t, err)
		}
	}
	gaveUp := 0
	for _, c := range callers {
		gaveUp += c.gaveUp
	}
	t.Log(histories, "histories,", operations.Load(), "operations,", gaveUp, "of unknown outcome,", stays.Counters()["shard moved out"], "shards moved")
}

// awaitShards waits until the member has shards.
func awaitShards(ctx context.Context, n *shard.Node) error {
	for n.Counters()["shard moved in"] < 100 {
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for shards: %w", ctx.Err())
		}
		runtime.Gosched()
	}
	return nil
}

// ids are few, so that callers call the same accounts.
var ids = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}

// caller calls the accounts over references that it keeps.
type caller struct {
	number int
	random *rand.Rand
	refs   map[string]fixture.AccountRef
	tells  map[string]fixture.AccountTell
	// told are the indexes in the history of tells that no answer to a later call has followed yet.
	told    map[string][]int
	history []operation
	gaveUp  int // calls of unknown outcome, in all histories
}

func newCaller(c shard.Caller, number int) *caller {
	client := fixture.NewAccountClient(c)
	refs, tells := map[string]fixture.AccountRef{}, map[string]fixture.AccountTell{}
	for _, id := range ids {
		refs[id], tells[id] = client.Ref(id), client.Tell(id)
	}
	return &caller{number: number, random: rand.New(rand.NewPCG(1, uint64(number))), refs: refs, tells: tells}
}

// record has all callers act at once and returns what they saw.
func record(ctx context.Context, t *testing.T, callers []*caller) (history []operation) {
	var wg sync.WaitGroup
	begin := time.Now()
	now := func() int64 { return int64(time.Since(begin)) }
	errs := make([]error, len(callers))
	for i, c := range callers {
		wg.Go(func() { errs[i] = c.act(ctx, now) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, c := range callers {
		history = append(history, c.history...)
	}
	slices.SortFunc(history, func(a, b operation) int { return int(a.Begin - b.Begin) })
	return history
}

// act makes calls and tells in random order, and asks for every balance at the end.
func (c *caller) act(ctx context.Context, now func() int64) error {
	c.history, c.told = nil, map[string][]int{}
	for range actions {
		in := input{id: ids[c.random.IntN(len(ids))], amount: 1 + c.random.Int64N(1<<20)}
		var err error
		switch n := c.random.IntN(100); {
		case n < 45:
			err = c.do(ctx, in, now)
		case n < 60:
			err = c.do(ctx, input{id: in.id}, now)
		case n < 61:
			err = c.cancelled(ctx, in, now)
		case n < 98:
			in.tell = true
			err = c.do(ctx, in, now)
		default:
			err = c.tells[in.id].Rest(ctx)
		}
		if err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := c.do(ctx, input{id: id}, now); err != nil {
			return err
		}
	}
	return nil
}

// cancelled makes a call and cancels it at some moment.
func (c *caller) cancelled(ctx context.Context, in input, now func() int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	op := operation{In: in, Begin: now()}
	go cancel()
	op.Out, op.Err = c.refs[in.id].Add(ctx, in.amount)
	op.End = now()
	if op.Err != nil && !errors.Is(op.Err, context.Canceled) {
		return op.Err
	}
	if op.Outcome() == shard.Unknown {
		c.gaveUp++
	}
	c.history = append(c.history, op)
	return nil
}

// do does one operation and records it. A tell has taken effect when the same caller's next call of
// the account returns, because both run in order.
func (c *caller) do(ctx context.Context, in input, now func() int64) (err error) {
	op := operation{In: in, Begin: now()}
	switch {
	case in.tell:
		err = c.tells[in.id].Add(ctx, in.amount)
	case in.amount == 0:
		op.Out, err = c.refs[in.id].Get(ctx)
	default:
		op.Out, err = c.refs[in.id].Add(ctx, in.amount)
	}
	if err != nil {
		return err
	}
	op.End = now()
	if in.tell {
		c.told[in.id] = append(c.told[in.id], len(c.history))
	} else {
		for _, i := range c.told[in.id] {
			c.history[i].End = op.End
		}
		c.told[in.id] = c.told[in.id][:0]
	}
	c.history = append(c.history, op)
	return nil
}

var durableSeeds = flag.Int("durable-seeds", 40, "how many simulated runs TestDurableAccountsAreLinearizable checks")

// TestDurableAccountsAreLinearizable: with crashes, pauses, partitions, moves and an unreliable
// store, the calls of durable accounts could have run one after another.
func TestDurableAccountsAreLinearizable(t *testing.T) {
	total, unknown := 0, 0
	for seed := range uint64(*durableSeeds) {
		seen, err := durable.RunClosed(seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		history := operations(seen)
		for _, op := range history {
			if total++; op.Outcome() == shard.Unknown {
				unknown++
			}
		}
		linear.Check(t, balances(nil), history)
	}
	t.Log(total, "operations,", unknown, "of them not answered")
	if unknown == 0 {
		t.Error("every operation was answered: the faults do not reach the callers")
	}
}

// TestStaleDurableReadIsSeen: the check finds an answer that is older than an answer that came
// before its call.
func TestStaleDurableReadIsSeen(t *testing.T) {
	history := []durable.Operation{
		{Account: "a", Change: 1, Answered: true, Call: 1, Return: 2, Balance: 1, Version: 1},
		{Account: "a", Change: 1, Answered: true, Call: 3, Return: 4, Balance: 2, Version: 2},
		{Account: "a", Read: true, Answered: true, Call: 5, Return: 6, Balance: 1, Version: 1},
	}
	r := &reports{TB: t, dir: t.TempDir()}
	linear.Check(r, balances(nil), operations(history))
	require.NotEmpty(t, r.failed, "a stale read")
}

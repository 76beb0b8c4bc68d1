package linear_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/examples/auction/auction"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
	"github.com/shardgen/shardgen/shardtest/linear"
)

// A Call is a deposit of an amount, or the question for the free money if the amount is 0.
type Call struct {
	ID     string
	Amount int64
}

// users is the model of users who reserve nothing.
var users = linear.Model[Call, int64, int64]{
	Entity: func(c Call) string { return c.ID },
	Apply: func(free int64, c Call) (int64, int64, error) {
		free += c.Amount
		if c.Amount > 0 {
			return free, 0, nil // Deposit has no result
		}
		return free, free, nil
	},
}

// TestUsersAreLinearizable: while nodes are killed, paused and cut off, the calls of durable
// entities could have run one after another.
func TestUsersAreLinearizable(t *testing.T) {
	var history shardtest.History[Call, int64]
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		client := auction.NewUserClient(c.Client())
		var callers sync.WaitGroup
		for i := range 4 {
			callers.Go(func() {
				for n := range 60 {
					id := fmt.Sprint("user-", (i+n)%3)
					_, _ = history.Call(Call{ID: id, Amount: int64(n % 2)}, func() (int64, error) {
						if n%2 == 1 {
							return 0, client.Ref(id).Deposit(t.Context(), 1)
						}
						return client.Ref(id).Free(t.Context())
					})
					time.Sleep(200 * time.Millisecond)
				}
			})
		}
		c.Storm(10 * time.Second)
		callers.Wait()
	}, shardtest.Host(auction.Host), shardtest.Latency(time.Millisecond, 20*time.Millisecond))
	t.Log(history.Count())
	require.Greater(t, history.Count()[shard.Executed], 120)
	linear.Check(t, users, history.Operations())
}

// reports is a test that records its failures.
type reports struct {
	testing.TB
	dir    string
	failed string
}

func (r *reports) Helper()             {}
func (r *reports) ArtifactDir() string { return r.dir }
func (r *reports) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
}

// TestHistories checks small histories, each a list of calls with answers.
func TestHistories(t *testing.T) {
	type op = shardtest.Operation[Call, int64]
	unknown := &shard.CallError{Outcome: shard.Unknown, Err: shard.ErrLost}
	never := &shard.CallError{Outcome: shard.NotExecuted, Err: shard.ErrLost}
	deposit := Call{ID: "ann", Amount: 5}
	free := Call{ID: "ann"}
	for _, c := range []struct {
		name    string
		history []op
		fails   bool
	}{
		{"nothing", nil, false},
		{"one after another", []op{{In: deposit, Begin: 1, End: 2}, {In: free, Out: 5, Begin: 3, End: 4}}, false},
		{"a lost write", []op{{In: deposit, Begin: 1, End: 2}, {In: free, Out: 0, Begin: 3, End: 4}}, true},
		{"a write twice", []op{{In: deposit, Begin: 1, End: 2}, {In: free, Out: 10, Begin: 3, End: 4}}, true},
		{"at once", []op{{In: deposit, Begin: 1, End: 4}, {In: free, Out: 0, Begin: 2, End: 3}}, false},
		{"another entity", []op{{In: deposit, Begin: 1, End: 2}, {In: Call{ID: "bob"}, Out: 0, Begin: 3, End: 4}}, false},
		{"perhaps, and seen", []op{{In: deposit, Err: unknown, Begin: 1, End: 2}, {In: free, Out: 5, Begin: 3, End: 4}}, false},
		{"perhaps, and not seen", []op{{In: deposit, Err: unknown, Begin: 1, End: 2}, {In: free, Out: 0, Begin: 3, End: 4}}, false},
		{"perhaps, seen and gone", []op{
			{In: deposit, Err: unknown, Begin: 1, End: 2}, {In: free, Out: 5, Begin: 3, End: 4}, {In: free, Out: 0, Begin: 5, End: 6},
		}, true},
		{"not ended", []op{{In: deposit, Begin: 1}, {In: free, Out: 5, Begin: 3, End: 4}}, false},
		{"not run, and seen", []op{{In: deposit, Err: never, Begin: 1, End: 2}, {In: free, Out: 5, Begin: 3, End: 4}}, true},
		{"refused by the entity", []op{{In: deposit, Err: &shard.EntityError{Text: "no"}, Begin: 1, End: 2}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &reports{TB: t, dir: t.TempDir()}
			linear.Check(r, users, c.history)
			require.Equal(t, c.fails, r.failed != "", r.failed)
			_, err := os.Stat(filepath.Join(r.dir, "history.html"))
			require.Equal(t, c.fails, err == nil, "there is a page")
		})
	}
}

// TestOutOfOneEntity: without Model.Entity, all calls are of one entity.
func TestOutOfOneEntity(t *testing.T) {
	all := users
	all.Entity = nil
	r := &reports{TB: t, dir: t.TempDir()}
	linear.Check(r, all, []shardtest.Operation[Call, int64]{
		{In: Call{ID: "ann", Amount: 5}, Begin: 1, End: 2}, {In: Call{ID: "bob"}, Out: 0, Begin: 3, End: 4},
	})
	require.NotEmpty(t, r.failed)
}

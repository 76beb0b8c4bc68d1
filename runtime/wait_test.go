package shard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// soon is a timeout for calls that should reach their deadline.
const soon = 100 * time.Millisecond

// hold calls the method Hold of the account bob, and returns when its turn has begun. The channel
// gets the result of Hold.
func (c *cluster) hold(ctx context.Context, accounts *fixture.AccountClient) <-chan error {
	c.t.Helper()
	done := make(chan error, 1)
	go func() { done <- accounts.Ref("bob").Hold(ctx) }()
	receive(c.t, c.probe.Entered, "Hold begins")
	return done
}

// receive returns the next value of ch. It fails the test after testPatience.
func receive[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(testPatience):
		t.Fatal("in vain: ", what)
	}
	return v
}

// waiting waits until n calls wait for the account bob.
func (c *cluster) waiting(n int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.nodes["a"].Waiting(accountKind, "bob") == n }, testPatience, testTick, "%d calls wait", n)
}

func TestBusyEntityServesInOrder(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
		held := c.hold(testContext(t), accounts)
		var want []string
		notes := make(chan error, 10)
		for i := range 10 {
			want = append(want, fmt.Sprint(i))
			go func() { notes <- accounts.Ref("bob").Note(context.Background(), fmt.Sprint(i)) }()
			c.waiting(i + 1)
		}
		close(c.probe.Release)
		require.NoError(t, receive(t, held, "Hold returns"))
		for range want {
			require.NoError(t, receive(t, notes, "a note returns"))
		}
		got, err := accounts.Ref("bob").Lines(testContext(t))
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// TestDeadlineWhileWaiting: a call reaches its deadline while it waits. If the caller is at the
// entity's node, the outcome is NotExecuted. A remote caller cannot know the outcome, but the call
// does not run either.
func TestDeadlineWhileWaiting(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
		held := c.hold(testContext(t), accounts)
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		_, err := accounts.Ref("bob").Add(ctx, 1)
		want := shard.NotExecuted
		if t.Name() == "TestDeadlineWhileWaiting/far" {
			want = shard.Unknown
		}
		requireCall(t, err, context.DeadlineExceeded, want)
		require.Eventually(t, func() bool { // a remote call may arrive only now
			counters := c.nodes["a"].Counters()
			return counters["cancelled"]+counters["expired"] > 0
		}, testPatience, testTick)
		c.waiting(0)
		close(c.probe.Release)
		require.NoError(t, receive(t, held, "Hold returns"))
		got, err := accounts.Ref("bob").Get(testContext(t))
		require.NoError(t, err)
		require.Zero(t, got)
	})
}

func TestCancelWhileWaiting(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
		held := c.hold(testContext(t), accounts)
		ctx, cancel := context.WithCancel(context.Background())
		added := make(chan error, 1)
		go func() {
			_, err := accounts.Ref("bob").Add(ctx, 1)
			added <- err
		}()
		c.waiting(1)
		cancel()
		err := receive(t, added, "Add returns")
		require.ErrorIs(t, err, context.Canceled)
		require.NotEqual(t, shard.Executed, shard.OutcomeOf(err))
		c.waiting(0)
		counters := c.nodes["a"].Counters()
		require.NotZero(t, counters["cancelled"]+counters["expired"], "%v", counters)
		close(c.probe.Release)
		require.NoError(t, receive(t, held, "Hold returns"))
		got, err := accounts.Ref("bob").Get(testContext(t))
		require.NoError(t, err)
		require.Zero(t, got)
	})
}

// TestEndOfContextInMethod: the method sees its caller's deadline and cancellation. If the method
// runs on its caller's goroutine, the caller gets the method's result. Otherwise the caller returns
// at once with the outcome Unknown.
func TestEndOfContextInMethod(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		want error
		end  func() (context.Context, context.CancelFunc)
	}{
		{"deadline", context.DeadlineExceeded, func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), soon)
		}},
		{"cancel", context.Canceled, func() (context.Context, context.CancelFunc) {
			return context.WithCancel(context.Background())
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachWay(t, nil, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
				ctx, cancel := test.end()
				defer cancel()
				held := c.hold(ctx, accounts)
				if test.want == context.Canceled {
					cancel()
				}
				err := receive(t, held, "the caller is back")
				left := receive(t, c.probe.Left, "the method returns")
				require.Error(t, left)
				if t.Name() == "TestEndOfContextInMethod/"+test.name+"/inline" {
					require.ErrorIs(t, left, test.want)
				}
				requireEnded(t, err, test.want)
				_, err = accounts.Ref("bob").Get(testContext(t))
				require.NoError(t, err)
			})
		})
	}
}

// requireEnded checks the error of a call whose context ended while its method ran. The error must
// be want, the context's error, unless the method's answer was faster.
func requireEnded(t *testing.T, err, want error) {
	t.Helper()
	var entity *shard.EntityError
	if errors.As(err, &entity) {
		require.Contains(t, []string{context.DeadlineExceeded.Error(), context.Canceled.Error()}, entity.Text)
		return
	}
	requireCall(t, err, want, shard.Unknown)
}

// TestDeadlineComesBack: a call returns at its deadline, although the method ignores its context.
func TestDeadlineComesBack(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
		if t.Name() == "TestDeadlineComesBack/inline" {
			t.Skip("inline the method runs on the caller's goroutine")
		}
		c.probe.Left = make(chan error) // Hold returns only when the test receives
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		requireCall(t, receive(t, c.hold(ctx, accounts), "the caller is back"), context.DeadlineExceeded, shard.Unknown)
		require.Error(t, receive(t, c.probe.Left, "the method returns"))
	})
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		config, call time.Duration // 0 means the default
		context      time.Duration
		want         time.Duration
	}{
		{name: "short CallTimeout", config: soon, want: soon},
		{name: "long CallTimeout", config: 1200 * time.Millisecond, want: 1200 * time.Millisecond},
		{name: "Timeout", call: soon, want: soon},
		{name: "Timeout over CallTimeout", config: soon, call: 4 * soon, want: 4 * soon},
		{name: "context over CallTimeout", config: soon, context: 4 * soon, want: 4 * soon},
		{name: "context under Timeout", call: time.Minute, context: soon, want: soon},
		{name: "Timeout under context", call: soon, context: time.Minute, want: soon},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, "a")
			c.tune = func(cfg *shard.Config) { cfg.CallTimeout = test.config }
			conn := c.dial("client")
			_, err := fixture.NewAccountClient(conn).Ref("bob", shard.Timeout(testPatience)).Get(testContext(t))
			require.NoError(t, err, "its shard has a home before time counts")
			begun, ctx := time.Now(), context.Background()
			if test.context > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.context)
				defer cancel()
			}
			var opts []shard.CallOption
			if test.call > 0 {
				opts = append(opts, shard.Timeout(test.call))
			}
			ref := fixture.NewAccountClient(conn).Ref("bob", opts...)
			err = ref.Hold(ctx)
			took := time.Since(begun)
			requireEnded(t, err, context.DeadlineExceeded)
			require.GreaterOrEqual(t, took, test.want-time.Millisecond)
			require.Less(t, took, test.want+10*time.Second)
			require.Error(t, receive(t, c.probe.Left, "the method returns"))
		})
	}
}

func TestMailboxOverflows(t *testing.T) {
	t.Parallel()
	tune := func(cfg *shard.Config) { cfg.Limits.MailboxCalls = 2 }
	eachWay(t, tune, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
		held := c.hold(testContext(t), accounts)
		adds := make(chan error, 2)
		for i := range 2 {
			go func() {
				_, err := accounts.Ref("bob").Add(context.Background(), 1)
				adds <- err
			}()
			c.waiting(i + 1)
		}
		_, err := accounts.Ref("bob").Add(testContext(t), 1)
		requireCall(t, err, shard.ErrOverloaded, shard.NotExecuted)
		require.ErrorContains(t, err, "call Account/bob.Add: overloaded: its mailbox at a already holds 2 calls (retry later, or raise its MaxMailboxCalls)")
		close(c.probe.Release)
		require.NoError(t, receive(t, held, "Hold returns"))
		for range 2 {
			require.NoError(t, receive(t, adds, "an Add returns"))
		}
		got, err := accounts.Ref("bob").Get(testContext(t))
		require.NoError(t, err)
		require.EqualValues(t, 2, got)
	})
}

// buffered waits until n calls of the caller wait for a home.
func buffered(t *testing.T, n *shard.Node, calls uint64) {
	t.Helper()
	require.Eventually(t, func() bool { return n.Counters()["buffered"] == calls }, testPatience, testTick)
}

func TestCallsBeforeStart(t *testing.T) {
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Limits.BufferSize = 3 }
	n := c.add("a")
	accounts := fixture.NewAccountClient(n)
	adds := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := accounts.Ref("bob").Add(testContext(t), 1)
			adds <- err
		}()
	}
	buffered(t, n, 2)
	require.NoError(t, accounts.Tell("bob").Add(testContext(t), 1))
	_, err := accounts.Ref("bob").Add(testContext(t), 1)
	requireCall(t, err, shard.ErrOverloaded, shard.NotExecuted)
	require.ErrorContains(t, err, "overloaded: 3 calls wait at a already: shard ")
	requireCall(t, accounts.Tell("bob").Add(testContext(t), 1), shard.ErrOverloaded, shard.NotExecuted)
	require.NoError(t, n.Start(testContext(t)))
	for range 2 {
		require.NoError(t, receive(t, adds, "an Add returns"))
	}
	require.Eventually(t, func() bool {
		got, err := accounts.Ref("bob").Get(testContext(t))
		return err == nil && got == 3
	}, testPatience, testTick)
}

func TestDeadlineBeforeStart(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	n := c.add("a")
	accounts := fixture.NewAccountClient(n)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	_, err := accounts.Ref("bob").Add(ctx, 1)
	requireCall(t, err, context.DeadlineExceeded, shard.NotExecuted)
	_, err = accounts.Ref("bob", shard.Timeout(1500*time.Millisecond)).Add(context.Background(), 1)
	requireCall(t, err, context.DeadlineExceeded, shard.NotExecuted)
	waits := make(chan error, 1)
	go func() { waits <- accounts.Ref("bob").Fail(testContext(t)) }()
	buffered(t, n, 3)
	require.NoError(t, n.Close())
	require.ErrorIs(t, receive(t, waits, "the call fails"), shard.ErrClosed)
	err = accounts.Ref("bob").Fail(testContext(t))
	requireCall(t, err, shard.ErrClosed, shard.NotExecuted)
	requireCall(t, accounts.Tell("bob").Fail(testContext(t)), shard.ErrClosed, shard.NotExecuted)
}

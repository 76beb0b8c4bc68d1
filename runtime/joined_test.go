package shard_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport"
)

// TestTellsThatJoinedStayInOrder: tells to a busy entity, which join its running turn, run once and
// in order. That holds if a tell takes long, fails, ends its goroutine, or makes the entity be
// passivated, restarted or forgotten.
func TestTellsThatJoinedStayInOrder(t *testing.T) {
	t.Parallel()
	type tell = fixture.AccountTell
	act := func(a shard.SupervisorAction) func(error) shard.SupervisorAction {
		return func(error) shard.SupervisorAction { return a }
	}
	for name, tt := range map[string]struct {
		disturb func(t *testing.T, to tell) error
		opts    []shard.HostOption
		forgets bool // earlier lines are lost
	}{
		"passivated": {disturb: func(t *testing.T, to tell) error { return to.Rest(testContext(t)) }},
		"fails":      {disturb: func(t *testing.T, to tell) error { return to.Fail(testContext(t)) }},
		"panics":     {disturb: func(t *testing.T, to tell) error { return to.Panic(testContext(t), "now") }},
		"exits":      {disturb: func(t *testing.T, to tell) error { return to.Exit(testContext(t)) }},
		"forgotten":  {disturb: func(t *testing.T, to tell) error { return to.End(testContext(t)) }, forgets: true},
		"stopped": {
			disturb: func(t *testing.T, to tell) error { return to.Fail(testContext(t)) },
			opts:    []shard.HostOption{shard.Supervise(act(shard.ActionStop))}, forgets: true,
		},
		"restarted at once": {
			disturb: func(t *testing.T, to tell) error { return to.Fail(testContext(t)) },
			opts:    []shard.HostOption{shard.Supervise(act(shard.ActionRestart)), shard.RestartBackoff(0, 0)}, forgets: true,
		},
		"restarted later": {
			disturb: func(t *testing.T, to tell) error { return to.Panic(testContext(t), "now") },
			opts:    []shard.HostOption{shard.Supervise(act(shard.ActionRestart)), shard.RestartBackoff(time.Millisecond, time.Millisecond)}, forgets: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := emptyCluster(t)
			c.opts = tt.opts
			a := c.start("a")
			client := fixture.NewAccountClient(a)
			settle(t, client, "bob", "other")
			to := client.Tell("bob")
			persist := func(send func() error) {
				err := send()
				for ; errors.Is(err, shard.ErrOverloaded); err = send() {
					runtime.Gosched() // until there is room
				}
				require.NoError(t, err)
			}
			sent := 0
			burst := func(lines, every int) (want []string) {
				for i := range lines {
					line := fmt.Sprint(sent)
					persist(func() error { return to.Note(testContext(t), line) })
					want, sent = append(want, line), sent+1
					if i%every == every-1 {
						persist(func() error { return tt.disturb(t, to) })
						if tt.forgets {
							want = nil
						}
					}
				}
				return want
			}
			lines := func() (got []string) {
				persist(func() (err error) {
					got, err = client.Ref("bob").Lines(testContext(t))
					return err
				})
				return slices.DeleteFunc(slices.Clone(got), func(line string) bool { return line == "slow" })
			}
			var want []string
			more := func(b []string) {
				if tt.forgets {
					want = nil
				}
				want = append(want, b...)
			}
			for range 20 {
				more(burst(64, 9))
			}
			require.Equal(t, want, lines(), "behind quick tells")

			release := slowly(t, to)
			more(burst(200, 70))
			require.Equal(t, 202, a.Waiting(accountKind, "bob"), "all have joined")
			require.NoError(t, client.Tell("other").Note(testContext(t), "goes on"))
			require.Eventually(t, func() bool {
				got, err := client.Ref("other").Lines(testContext(t))
				return err == nil && len(got) == 1
			}, testPatience, testTick, "another entity's")
			release()
			require.Equal(t, want, lines(), "behind one that takes long")
			more(burst(64, 9))
			require.Equal(t, want, lines(), "after that")
			require.Zero(t, a.Counters()["tell lost"])
		})
	}
}

// slowly makes an account's turn wait in the decoder of a tell until release is called.
func slowly(t *testing.T, to fixture.AccountTell) (release func()) {
	t.Helper()
	entered, released := make(chan struct{}), make(chan struct{})
	wait := func() {
		entered <- struct{}{}
		<-released
	}
	fixture.SlowLetter.Store(&wait)
	require.NoError(t, to.Read(testContext(t), "slow"))
	receive(t, entered, "the tell begins")
	fixture.SlowLetter.Store(nil)
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	return release
}

// TestTellsThatJoinedAreBounded: the bounds of the mailbox hold for tells that join a turn.
func TestTellsThatJoinedAreBounded(t *testing.T) {
	c := emptyCluster(t)
	c.opts = []shard.HostOption{shard.MaxMailboxBytes(64 << 10)}
	client := fixture.NewAccountClient(c.start("a"))
	settle(t, client, "many", "large")

	many := client.Tell("many")
	release := slowly(t, many)
	for range 64 {
		require.NoError(t, many.Add(testContext(t), 1))
	}
	err := many.Add(testContext(t), 1)
	requireCall(t, err, shard.ErrOverloaded, shard.NotExecuted)
	require.ErrorContains(t, err, "its mailbox at a may hold 65536 bytes")
	release()
	got, err := client.Ref("many").Get(testContext(t))
	require.NoError(t, err)
	require.EqualValues(t, 64, got)

	large := client.Tell("large")
	release = slowly(t, large)
	require.NoError(t, large.Echo(testContext(t), make([]byte, 40<<10)))
	requireCall(t, large.Echo(testContext(t), make([]byte, 40<<10)), shard.ErrOverloaded, shard.NotExecuted)
	require.NoError(t, large.Add(testContext(t), 1), "behind the large one")
	release()
	got, err = client.Ref("large").Get(testContext(t))
	require.NoError(t, err)
	require.EqualValues(t, 1, got)
}

// TestTellsThatJoinedALostShard: if a shard is lost during a turn, the tells that have joined the
// turn and wait behind the running one do not run, and are counted.
func TestTellsThatJoinedALostShard(t *testing.T) {
	c := emptyCluster(t)
	a := c.start("a")
	client := fixture.NewAccountClient(a)
	settle(t, client, "bob")
	to := client.Tell("bob")
	release := slowly(t, to)
	for range 3 {
		require.NoError(t, to.Panic(testContext(t), "behind a lost shard"))
	}
	a.LoseShard(accountKind, "bob", transport.Address{Name: "elsewhere", Incarnation: 1})
	release()
	require.Eventually(t, func() bool { return a.Counters()["tell lost"] == 3 }, testPatience, testTick)
}

package shard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/fixture/giro"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// hostGiro hosts the types of package giro.
func hostGiro(n *shard.Node) error {
	if err := giro.HostAccount(n, func() *giro.Account { return &giro.Account{} }); err != nil {
		return err
	}
	return giro.HostRoll(n, func() *giro.Roll { return &giro.Roll{} })
}

// TestEventsGone: a journal that keeps its last three events by keep=3 deletes the others, and a
// follower that has not read them is told so instead of passing over them.
func TestEventsGone(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		roll := giro.NewRollClient(c.Node("n1"))
		note := string(make([]byte, 20<<10)) // a chunk of its own
		enter := func(n int) {
			for range n {
				_, err := roll.Ref("a").Enter(t.Context(), 1, note)
				require.NoError(t, err)
				c.Advance(time.Second) // it is written to the journal alone
			}
		}
		read := func(from shard.Position, n int) (numbers []uint64, at shard.Position, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for e, err := range roll.Events(ctx, from) {
				if err != nil {
					return numbers, at, err
				}
				numbers, at = append(numbers, e.Number), e.Position
				if len(numbers) == n {
					break
				}
			}
			return numbers, at, nil
		}
		enter(2)
		numbers, at, err := read("", 2)
		require.NoError(t, err)
		require.Equal(t, []uint64{1, 2}, numbers)
		enter(8)
		c.Until("the journal has the last three events alone", func() bool {
			numbers, _, err := read("", 1)
			return err == nil && numbers[0] == 8
		})
		numbers, _, err = read(at, 1)
		require.ErrorIs(t, err, shard.ErrEventsGone)
		require.ErrorContains(t, err, "events 3 to 7 of the journal are deleted")
		require.Empty(t, numbers)
		numbers, _, err = read("", 3)
		require.NoError(t, err)
		require.Equal(t, []uint64{8, 9, 10}, numbers)
	}, shardtest.Nodes(1), shardtest.Host(hostGiro))
}

// TestFollowedByAnother: of two processes that follow under one name, the one that has read less ends.
func TestFollowedByAnother(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		accounts := giro.NewAccountClient(c.Node("n1"))
		for i := range 5 {
			_, err := accounts.Ref("a").Enter(t.Context(), 1, fmt.Sprint(i))
			require.NoError(t, err)
		}
		follow := func(each func(n int) bool) error {
			n := 0
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, err := range accounts.Events(ctx, "", shard.FollowerName("billing")) {
				if err != nil {
					return err
				}
				if n++; !each(n) {
					return nil
				}
			}
			return ctx.Err()
		}
		err := follow(func(n int) bool {
			if n == 1 { // a second one begins, and reads more
				require.NoError(t, follow(func(n int) bool { return n < 5 }))
				c.Advance(2 * time.Second) // the first one stores its place when it goes on
			}
			return true
		})
		require.ErrorIs(t, err, shard.ErrFollowed)
		require.ErrorContains(t, err, "billing")
		require.NoError(t, follow(func(int) bool { return false }), "the event at which the second one ended comes again")
	}, shardtest.Nodes(1), shardtest.Host(hostGiro))
}

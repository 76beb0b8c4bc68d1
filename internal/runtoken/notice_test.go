package runtoken

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/tasks"
)

// A noticed turn notes when it loses its run token.
type noticed struct {
	Notice
	lost   atomic.Int32 // how often Lose was called
	taken  atomic.Bool  // the token was taken
	before func()       // called in Lose before the token is taken; may be nil
}

func (u *noticed) Lose(take func() bool) {
	u.lost.Add(1)
	if u.before != nil {
		u.before()
	}
	if take() {
		u.taken.Store(true)
	}
}

// TestTurnIsToldBeforeOthersGoOn: a turn knows that it has lost the run token before another
// goroutine has it, and no turn but that is notified.
func TestTurnIsToldBeforeOthersGoOn(t *testing.T) {
	var group tasks.Group
	group.Init()
	var token Token
	var u noticed
	next := make(chan bool, 1)
	token.Init(&group, func() { next <- u.taken.Load() })

	hold := token.EnterNotified(&u.Notice, &u)
	hold.HandOver()
	require.True(t, <-next, "the turn is notified first")
	require.False(t, hold.Leave(), "it has lost the token")
	hold.HandOver()
	require.EqualValues(t, 1, u.lost.Load(), "once more has no effect")

	plain := token.Enter() // the turn before is still the latest that was notified
	plain.HandOver()
	require.True(t, <-next)
	require.False(t, plain.Leave())
	require.EqualValues(t, 1, u.lost.Load(), "it is another turn's token")

	var kept noticed
	hold = token.EnterNotified(&kept.Notice, &kept)
	kept.before = func() { require.True(t, hold.Leave(), "it ends first") }
	hold.HandOver()
	require.EqualValues(t, 1, kept.lost.Load())
	require.False(t, kept.taken.Load())
	require.True(t, group.Wait(t.Context()))
	require.Empty(t, next, "nobody goes on")
}

// TestTurnsAndThieves: of many turns, notified or not, each keeps the run token to its end or has lost
// it, and was notified exactly then, before the next turn began.
func TestTurnsAndThieves(t *testing.T) {
	const turns = 30_000
	var group tasks.Group
	group.Init()
	var token Token
	var over atomic.Bool
	var series func()
	n, lost, done := 0, 0, make(chan struct{}) // n and lost belong to the holder of the token
	var last *noticed                          // the turn that lost the token to this goroutine; nil if it was not notified
	series = func() {
		if last != nil && !last.taken.Load() {
			t.Error("a turn goes on before the one that lost the token was notified")
		}
		for n < turns {
			n++
			var u *noticed
			var hold Hold
			if last = nil; n%3 > 0 {
				u = new(noticed)
				last = u
				hold = token.EnterNotified(&u.Notice, u)
			} else {
				hold = token.Enter()
			}
			runtime.Gosched()
			kept := hold.Leave()
			if !kept {
				return // another goroutine goes on
			}
			if u != nil && u.taken.Load() {
				t.Error("a turn keeps the token and was notified that it lost it")
			}
		}
		close(done)
	}
	token.Init(&group, func() { lost++; series() })
	var thieves sync.WaitGroup
	for range 2 {
		thieves.Go(func() {
			for !over.Load() {
				if word := token.word.Load(); word%2 == 1 {
					Hold{token: &token, word: word}.HandOver()
				}
				runtime.Gosched()
			}
		})
	}
	group.Go(series)
	<-done
	over.Store(true)
	thieves.Wait()
	require.True(t, group.Wait(t.Context()))
	require.NotZero(t, lost, "no turn lost the token")
}

package runner

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/util/tasks"
)

// A script is the process of a Runner in a test.
type script struct {
	run     func(t *Turn, args []byte) bool
	emptied []bool
}

func (s *script) Run(t *Turn, args []byte) bool { return s.run(t, args) }
func (s *script) Emptied(idle bool)             { s.emptied = append(s.emptied, idle) }

func (s *script) RunAside(e *region.Entity, tell Aside) {
	s.run(&Turn{Entity: e, Method: tell.Method}, tell.Args)
}

// newRunner returns a Runner of a script, and the group of its goroutines.
func newRunner(s *script) (*Runner, *tasks.Group) {
	group, watch, r := new(tasks.Group), new(Watchdog), new(Runner)
	group.Init()
	watch.Init(time.Now())
	r.Init(group, watch, s)
	return r, group
}

// TestTurnsInOrder: turns run in the order in which they were added, each with its own arguments,
// also after a turn that lost the run token.
func TestTurnsInOrder(t *testing.T) {
	var ran []string
	var mu sync.Mutex
	s := &script{}
	r, group := newRunner(s)
	s.run = func(b *Turn, args []byte) bool {
		hold := r.Enter()
		mu.Lock()
		ran = append(ran, b.Method+":"+string(args))
		mu.Unlock()
		if b.Method == "3" {
			hold.HandOver()
		}
		return hold.Leave()
	}
	r.SetMost(1 << 20)
	var want []string
	for i := range 10 {
		args := strings.Repeat("x", i)
		require.True(t, r.Offer(Turn{Entity: &region.Entity{}, Method: strconv.Itoa(i)}, []byte(args)))
		want = append(want, strconv.Itoa(i)+":"+args)
	}
	require.True(t, group.Wait(t.Context()))
	require.Equal(t, want, ran)
	require.True(t, s.emptied[len(s.emptied)-1], "nothing is left")
}

// TestOfferIsBounded: waiting tells hold no more bytes than SetMost allows.
func TestOfferIsBounded(t *testing.T) {
	release := make(chan struct{})
	s := &script{run: func(*Turn, []byte) bool {
		<-release
		return true
	}}
	r, group := newRunner(s)
	r.SetMost(100)
	turn := Turn{Entity: &region.Entity{}}
	require.True(t, r.Offer(turn, make([]byte, 50)))
	refused := 0
	for range 10 {
		if !r.Offer(turn, make([]byte, 50)) {
			refused++
		}
	}
	require.GreaterOrEqual(t, refused, 7, "50 bytes are being run, and 100 may wait")
	r.Add(turn)
	close(release)
	require.True(t, group.Wait(t.Context()))
	require.True(t, r.Offer(turn, nil), "there is room again")
	require.True(t, group.Wait(t.Context()))
}

// TestOfferOfTellsWithoutArgumentsIsBounded: tells without arguments are bounded too, because they
// also take memory.
func TestOfferOfTellsWithoutArgumentsIsBounded(t *testing.T) {
	started, release := make(chan struct{}, 20), make(chan struct{})
	s := &script{run: func(*Turn, []byte) bool {
		started <- struct{}{}
		<-release
		return true
	}}
	r, group := newRunner(s)
	r.SetMost(10 * turnBytes)
	turn := Turn{Entity: &region.Entity{}}
	require.True(t, r.Offer(turn, nil))
	<-started
	for range 10 {
		require.True(t, r.Offer(turn, nil))
	}
	require.False(t, r.Offer(turn, nil), "ten wait")
	close(release)
	require.True(t, group.Wait(t.Context()))
}

// TestEndsOfBatchesAreReported: after each batch of turns the process learns whether more turns
// wait.
func TestEndsOfBatchesAreReported(t *testing.T) {
	started, release := make(chan struct{}, 10), make(chan struct{})
	s := &script{run: func(*Turn, []byte) bool {
		started <- struct{}{}
		<-release
		return true
	}}
	r, group := newRunner(s)
	turn := Turn{Entity: &region.Entity{}}
	r.Add(turn)
	<-started
	before := len(s.emptied)
	r.Add(turn)
	r.Add(turn)
	close(release)
	require.True(t, group.Wait(t.Context()))
	require.Equal(t, []bool{false, true}, s.emptied[before:], "a batch of two waited behind the first turn")
}

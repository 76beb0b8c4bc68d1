package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// beats are one caller's calls to the singleton, one after the other.
type beats struct {
	sender string
	call   func(ctx context.Context, sender string, seq uint64) (node string, fresh bool, err error)

	mu     sync.Mutex
	node   string // that answered last
	well   int
	since  time.Time // the last answer, or the beginning of the strike
	pause  time.Duration
	failed int
	forgot int
	errs   []string
}

// beatEvery spaces the calls of one caller.
const beatEvery = time.Millisecond

// callersOfSingleton is the number of callers of the singleton.
const callersOfSingleton = 4

// startBeats begins to call, over two connections from outside. stop waits for
// all callers and may be called twice.
func startBeats(ctx context.Context, c *cluster.Cluster, durable bool) (all []*beats, stop func(), err error) {
	run, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var conns []*shard.Conn
	stop = sync.OnceFunc(func() {
		end()
		wg.Wait()
		for _, conn := range conns {
			_ = conn.Close() // processes of this run: nothing depends on it
		}
	})
	for i := range connections {
		conn, err := c.Dial(ctx, fmt.Sprint("beats-", i))
		if err != nil {
			stop()
			return nil, nil, err
		}
		conns = append(conns, conn)
	}
	for i := range callersOfSingleton {
		b := &beats{
			sender: fmt.Sprint("caller-", i), since: time.Now(),
			call: workload.NewLeaderClient(conns[i%connections]).Ref().Beat,
		}
		if durable {
			b.call = workload.NewTreasurerClient(conns[i%connections]).Ref().Beat
		}
		all = append(all, b)
		wg.Go(func() { b.run(run) })
	}
	return all, stop, nil
}

func (b *beats) run(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for seq := uint64(1); ctx.Err() == nil; seq++ {
		node, fresh, err := b.call(context.WithoutCancel(ctx), b.sender, seq)
		b.took(node, fresh, err)
		if shard.OutcomeOf(err) == shard.NotExecuted {
			seq-- // it is made again, and the singleton sees no gap
		}
		<-ticker.C
	}
}

func (b *beats) took(node string, fresh bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.failed++
		if len(b.errs) < 2 {
			b.errs = append(b.errs, b.sender+": "+err.Error())
		}
		return
	}
	if fresh {
		b.forgot++
	}
	now := time.Now()
	b.pause = max(b.pause, now.Sub(b.since))
	b.well, b.node, b.since = b.well+1, node, now
}

func (b *beats) home() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.node
}

// answeredBy returns a function that reports whether all callers had their last answers from some of
// the nodes.
func answeredBy(callers []*beats, nodes ...*cluster.Node) func() bool {
	return func() bool {
		return !slices.ContainsFunc(callers, func(b *beats) bool {
			home := b.home()
			return !slices.ContainsFunc(nodes, func(n *cluster.Node) bool { return n.Name() == home })
		})
	}
}

// String describes the caller's latest answer and first errors.
func (b *beats) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("%s: answered by %s %v ago, %d calls failed: %s",
		b.sender, b.node, time.Since(b.since).Round(time.Millisecond), b.failed, strings.Join(b.errs, "; "))
}

// begin begins the figures of a strike.
func (b *beats) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pause, b.failed, b.forgot, b.errs = 0, 0, 0, nil
}

// add adds the figures of the strike.
func (b *beats) add(r *HandedStrike) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Pause = max(r.Pause, b.pause)
	r.Failed += b.failed
	r.Forgot += b.forgot
	r.Errors = append(r.Errors, b.errs...)
}

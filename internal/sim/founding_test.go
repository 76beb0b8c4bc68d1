package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

var foundingSeeds = flag.Uint64("founding-seeds", 3000, "how many simultaneous starts TestSimultaneousStartsFoundOneCluster makes")

// TestSimultaneousStartsFoundOneCluster: of processes that start at the same time, one forms the
// cluster. No other cluster is formed while a member of that cluster lives, unless the member
// stands still for longer than others wait for it (ADR 0007). Messages are slow, and processes
// stand still or are killed at any moment.
func TestSimultaneousStartsFoundOneCluster(t *testing.T) {
	seeds := *foundingSeeds
	if testing.Short() {
		seeds = 300
	}
	formed, replaced := 0, 0
	for seed := range seeds {
		f := newFoundingRun(seed)
		f.run()
		if f.err != nil {
			t.Fatalf("seed %d (%s): %v", seed, f.plan, f.err)
		}
		formed += f.formed
		if f.formed > 1 {
			replaced++
		}
	}
	t.Logf("%d starts: %d clusters, %d starts in which a later one followed a dead one", seeds, formed, replaced)
	if replaced == 0 {
		t.Error("no cluster died and was followed by another")
	}
}

// foundingPatience is how long a member may stand still before another cluster may be formed.
const foundingPatience = 5 * time.Second

// A foundingRun is one simultaneous start.
type foundingRun struct {
	*World
	random *rand.Rand
	plan   string
	still  map[*Node]time.Duration // since when it stands still
	formed int
	killed bool
	err    error
}

func newFoundingRun(seed uint64) *foundingRun {
	f := &foundingRun{random: rand.New(rand.NewPCG(seed, 11)), still: map[*Node]time.Duration{}}
	pick := func(of ...time.Duration) time.Duration { return of[f.random.IntN(len(of))] }
	c := Config{
		Seed: seed, Servers: 1 + f.random.IntN(2)*f.random.IntN(3), Recode: seed%16 == 0,
		Jitter:  pick(0, time.Millisecond, 20*time.Millisecond, 150*time.Millisecond),
		Latency: pick(0, 2*time.Millisecond, 50*time.Millisecond),
	}
	store := f.random.IntN(2) == 0
	if store {
		c.StoreTrouble = f.random.Float64() / 3
	}
	apart := pick(time.Millisecond, 10*time.Millisecond, 300*time.Millisecond, 2*time.Second)
	f.World = New(c)
	f.OnEvents = f.judge
	nodes := 2 + f.random.IntN(6)
	f.plan = fmt.Sprintf("%d nodes within %v, %d servers, store %v, jitter %v, latency %v", nodes, apart, c.Servers, store, c.Jitter, c.Latency)
	for i := range nodes {
		n, err := f.Add(membership.Config{
			Self: transport.Address{Name: fmt.Sprintf("n%d", i), Incarnation: 1 + f.random.Uint64N(1<<40)}, Seed: f.random.Uint64(),
			ProbeVacancy: true, Founding: store, JoinTimeout: 10 * time.Minute,
		}, Place{Server: f.random.IntN(c.Servers)})
		if err != nil {
			panic(err) // a mistake of the test
		}
		at := time.Duration(f.random.Int64N(int64(apart)))
		f.At(at, func() { f.Start(n) })
		f.trouble(n, at)
	}
	return f
}

// trouble makes a process stand still once or twice, and perhaps kills it, most often when it may
// form the cluster.
func (f *foundingRun) trouble(n *Node, start time.Duration) {
	moment := func() time.Duration {
		at := start + time.Duration(f.random.Int64N(int64(2*time.Second)))
		if f.random.IntN(2) == 0 {
			at = start + 200*time.Millisecond + time.Duration(f.random.Int64N(int64(20*time.Millisecond+4*f.config.Latency+4*f.config.Jitter)))
		}
		return at
	}
	for range f.random.IntN(3) {
		length := time.Duration(f.random.Int64N(int64([]time.Duration{20 * time.Millisecond, 600 * time.Millisecond, 9 * time.Second}[f.random.IntN(3)])))
		f.At(moment(), func() {
			if _, stands := f.still[n]; stands || n.ended || !n.started {
				return
			}
			f.still[n] = f.Now()
			f.Freeze(n)
			f.After(length, func() {
				if !f.excused(n) { // an excused process stays excused
					delete(f.still, n)
				}
				f.Thaw(n)
			})
		})
	}
	if f.random.IntN(8) == 0 {
		f.At(moment(), func() {
			if n.started {
				f.killed = true // a member that was not Up may be left of the founder's cluster
				f.Kill(n)
			}
		})
	}
}

// excused reports whether a process has stood still for so long that others need not wait for it.
func (f *foundingRun) excused(n *Node) bool {
	since, stands := f.still[n]
	return stands && f.Now()-since >= foundingPatience
}

// judge records a cluster that is formed while another one lives.
func (f *foundingRun) judge(n *Node, events []membership.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case membership.Formed:
			f.formed++
			for _, o := range f.nodes {
				if o != n && o.IsMember() && o.View().SelfStatus == membership.Up && !f.excused(o) {
					f.fail("%v forms a cluster at %v, although %v is a member of another", n.Address, f.Now(), o.Address)
				}
			}
		case membership.JoinFailed:
			f.fail("%v: %v", n.Address, e)
		case membership.SelfDowned:
			if strings.Contains(e.Reason, "another cluster") && !f.killed && !f.someExcused() {
				f.fail("%v: %v", n.Address, e)
			}
		}
	}
}

func (f *foundingRun) someExcused() bool {
	for _, n := range f.nodes {
		if f.excused(n) {
			return true
		}
	}
	return false
}

func (f *foundingRun) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// run runs the simultaneous start.
func (f *foundingRun) run() {
	together := func() bool {
		if f.Now() < 5*time.Second {
			return false
		}
		first := -1
		for i, n := range f.nodes {
			switch {
			case n.ended || f.excused(n): // it may have been downed before it heard of its admission
			case !n.IsMember() || n.View().SelfStatus != membership.Up:
				return false
			case first < 0:
				first = i
			case n.View().Founder != f.nodes[first].View().Founder:
				return false
			}
		}
		return true
	}
	if !f.RunUntil(90*time.Second, 100*time.Millisecond, together) && f.err == nil {
		text := ""
		for _, n := range f.nodes {
			text += fmt.Sprintf("\n%v: ended %v, %v of %v", n.Address, n.ended, n.View().SelfStatus, n.View().Founder)
		}
		f.err = fmt.Errorf("the processes have not formed one cluster:%s", text)
	}
	if f.err == nil {
		f.err = f.Err()
	}
}

package membership

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
)

// A chaos is one random run, in which nodes come, go, die, stand still and lose their connections.
// The network checks it after every step, and settle at the end.
type chaos struct {
	*network
	random      *rand.Rand
	incarnation uint64
	history     []string
	large       bool // more than three members are a large cluster
	flavours    bool // nodes differ in what must be equal
}

func newChaos(t testing.TB, seed uint64) *chaos {
	c := &chaos{network: newNetwork(t), random: rand.New(rand.NewPCG(seed, 7)), large: seed%2 == 1}
	for range 3 + c.random.IntN(4) {
		c.spawn()
	}
	return c
}

func (c *chaos) note(format string, args ...any) {
	c.history = append(c.history, fmt.Sprintf("%6.3fs ", c.now.Sub(c.origin).Seconds())+fmt.Sprintf(format, args...))
}

// spawn starts a node, sometimes under a name that was used before.
func (c *chaos) spawn() {
	c.incarnation++
	name := fmt.Sprintf("n%d", c.random.IntN(9))
	key := fmt.Sprintf("%s.%d", name, c.incarnation)
	config := core.Config{Cluster: "test", Self: addr(name, 1+c.random.Uint64N(1<<40)), Seed: c.incarnation, Differ: differ}
	if c.large {
		config.SmallCluster = 3
	}
	if c.flavours {
		config.Meta = []gossip.KeyValue{{Key: fmt.Sprint("type", c.random.IntN(2)), Value: fmt.Sprint(c.random.IntN(3))}}
		if nodes := c.running(); len(nodes) > 0 { // so that several members admit at the same moment
			config.Seeds = []string{nodes[c.random.IntN(len(nodes))].name()}
		}
	}
	n := c.add(key, fmt.Sprintf("s%d", 1+c.random.IntN(3)), config)
	c.note("start %s on %s", n.config.Self, n.server.name)
	c.start(n)
}

func (c *chaos) running() []*simNode {
	var nodes []*simNode
	for _, key := range c.order {
		if n := c.nodes[key]; !n.dead && n.machine.node.Phase != core.Ended {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (c *chaos) pick() *simNode {
	nodes := c.running()
	if len(nodes) == 0 {
		c.spawn()
		return c.pick()
	}
	return nodes[c.random.IntN(len(nodes))]
}

// fault does something bad, or ordinary.
func (c *chaos) fault() {
	n := c.pick()
	switch c.random.IntN(12) {
	case 0, 1:
		if len(c.running()) < 8 {
			c.spawn()
		}
	case 2:
		c.note("kill %v", n.config.Self)
		n.dead, n.connected = true, false
	case 3:
		c.note("leave %v", n.config.Self)
		c.step(n, core.Leave{})
		c.step(n, core.ExitReady{})
	case 4, 5:
		c.note("freeze or thaw %v", n.config.Self)
		if n.frozen {
			c.thaw(n)
		} else {
			c.freeze(n)
		}
	case 6:
		a, b := fmt.Sprintf("s%d", 1+c.random.IntN(3)), fmt.Sprintf("s%d", 1+c.random.IntN(3))
		if a != b {
			cut := !c.cuts[[2]string{a, b}]
			c.note("cut %s %s: %v", a, b, cut)
			c.cuts[[2]string{a, b}], c.cuts[[2]string{b, a}] = cut, cut
		}
	case 7:
		s := c.server(fmt.Sprintf("s%d", 1+c.random.IntN(3)))
		c.note("server %s: down %v", s.name, !s.down)
		if s.down {
			c.startServer(s)
		} else {
			c.stopServer(s)
		}
	case 8:
		n.deaf = !n.deaf
		c.note("deaf %v: %v", n.config.Self, n.deaf)
	case 9:
		n.mute = !n.mute
		c.note("mute %v: %v", n.config.Self, n.mute)
	case 10:
		// An operator who takes a partition for a crash can split a cluster. This operator acts
		// only while no route is cut.
		lease := n.machine.Lease()
		if !n.frozen && n.machine.node.Phase == core.Joined && (lease.IsZero() || lease.After(c.now)) && !c.cut() {
			victim := c.pick()
			c.note("down %v by %v", victim.config.Self, n.config.Self)
			c.step(n, core.DownNode{Node: victim.config.Self})
		}
	case 11:
		loss := c.random.Float64() * 0.5
		c.note("loss %.2f", loss)
		c.lossy = func(*simNode, *simNode) bool { return c.random.Float64() < loss }
	}
}

// cut reports whether any route between servers is cut.
func (c *chaos) cut() bool {
	return slices.Contains(slices.Collect(maps.Values(c.cuts)), true)
}

// heal ends all faults.
func (c *chaos) heal() {
	c.note("heal")
	clear(c.cuts)
	c.lossy = nil
	for _, name := range []string{"s1", "s2", "s3"} {
		if s := c.server(name); s.down {
			c.startServer(s)
		}
	}
	for _, n := range c.running() {
		n.deaf, n.mute = false, false
		if n.frozen {
			c.thaw(n)
		}
	}
}

// settled reports whether all running nodes are Up in one view. It restarts a node that has to
// rejoin, as its driver would.
func (c *chaos) settled() bool {
	for _, key := range c.order {
		n := c.nodes[key]
		if n.dead || n.machine.node.Phase != core.Ended {
			continue
		}
		n.dead, n.connected = true, false
		if e, ok := n.events[len(n.events)-1].(core.SelfDowned); ok && e.Rejoin {
			c.spawn()
		}
	}
	nodes := c.running()
	if len(nodes) == 0 {
		c.spawn()
	}
	return len(nodes) > 0 && c.converged(nodes)
}

// TestNoTwoThatDiffer: no state has two members that were Up and differ in a setting that must be
// equal, whatever fails and whichever member admits them. Some differences are found only after two
// members have admitted nodes.
func TestNoTwoThatDiffer(t *testing.T) {
	refused, downed := 0, 0
	for seed := range *randomSeeds {
		c := newChaos(t, 7000+seed)
		c.plain, c.flavours = true, true // not of the first few, which any member fits
		c.watch = func(n *simNode) {
			g := n.machine.node.Gossip
			if g == nil {
				return
			}
			for i, a := range g.Members {
				for _, b := range g.Members[:i] {
					if a.UpNumber == 0 || b.UpNumber == 0 || a.Status == gossip.Down || b.Status == gossip.Down {
						continue
					}
					if diff := differ(a, b); diff != "" {
						t.Fatalf("seed %d: %s has two members that differ: %s\n%s", seed, n.name(), diff, strings.Join(c.history, "\n"))
					}
				}
			}
		}
		for range 30 {
			c.run(time.Duration(c.random.IntN(4000))*time.Millisecond, nil)
			for range c.random.IntN(4) { // at the same moment
				if len(c.running()) < 8 {
					c.spawn()
				}
			}
			c.fault()
		}
		for _, n := range c.nodes {
			for _, e := range n.events {
				switch e := e.(type) {
				case core.JoinFailed:
					if strings.Contains(e.Err.Error(), "type") {
						refused++
					}
				case core.SelfDowned:
					if strings.Contains(e.Reason, "type") {
						downed++
					}
				}
			}
		}
	}
	t.Logf("%d seeds: %d refused, %d downed because they differ", *randomSeeds, refused, downed)
	if refused == 0 || downed == 0 {
		t.Errorf("%d nodes were refused, and %d were downed: want some of each", refused, downed)
	}
}

var randomSeeds = flag.Uint64("seeds", 40, "how many random runs TestRandomFaults makes")

func TestRandomFaults(t *testing.T) {
	seeds := *randomSeeds
	if testing.Short() {
		seeds = 20
	}
	ups, downs, rejoins := 0, 0, 0
	for seed := range seeds {
		c := newChaos(t, seed)
		c.plain = seed%8 != 0 // for speed
		t.Run("", func(t *testing.T) {
			c.t = t
			defer func() {
				if t.Failed() {
					t.Logf("seed %d\n%s\n%s", seed, strings.Join(c.history, "\n"), c.log.String())
				}
			}()
			for range 5 + c.random.IntN(30) {
				c.run(time.Duration(c.random.IntN(9000))*time.Millisecond, nil)
				c.fault()
			}
			c.heal()
			if !c.run(time.Minute, c.settled) {
				t.Errorf("not one view a minute after the last fault:\n%s", c.describe())
			}
			for _, key := range c.order {
				for _, e := range c.nodes[key].events {
					switch e := e.(type) {
					case core.MemberUp:
						ups++
					case core.MemberDowned:
						downs++
					case core.SelfDowned:
						if e.Rejoin {
							rejoins++
						}
					}
				}
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d seeds: %d ups, %d downs, %d meetings", seeds, ups, downs, rejoins)
	if ups == 0 || downs == 0 || rejoins == 0 {
		t.Errorf("the faults do not reach everything")
	}
}

func (c *chaos) describe() string {
	var b strings.Builder
	for _, n := range c.running() {
		v := n.machine.View()
		fmt.Fprintf(&b, "%v phase %d: %v, founder %v, leader %v, converged %v %s\n", n.config.Self, n.machine.node.Phase, v.SelfStatus, v.Founder, v.Leader, v.Converged, v.Why)
		for _, r := range v.ByAge {
			fmt.Fprintf(&b, "   %v %v\n", r.Member, r.Evidence)
		}
	}
	return b.String()
}

// TestReplay: two runs of one seed take the same steps.
func TestReplay(t *testing.T) {
	run := func() string {
		c := newChaos(t, 3)
		for range 20 {
			c.run(time.Duration(c.random.IntN(5000))*time.Millisecond, nil)
			c.fault()
		}
		var b strings.Builder
		for _, key := range c.order {
			fmt.Fprintln(&b, key, c.nodes[key].events)
		}
		return fmt.Sprintf("%d sent\n%s", c.sent, b.String())
	}
	if first, second := run(), run(); first != second {
		t.Errorf("two runs of one seed differ:\n%s\n%s", first, second)
	}
}

// TestLossRemovesNobody: nearly a third of all messages is lost for ten minutes, and no member is
// removed.
func TestLossRemovesNobody(t *testing.T) {
	c := &chaos{network: newNetwork(t), random: rand.New(rand.NewPCG(5, 5))}
	for i := range uint64(5) {
		n := c.add(fmt.Sprint("n", i), "s1", core.Config{Cluster: "test", Self: addr(fmt.Sprint("n", i), i+1), Seed: i})
		n.quiet = true
		c.start(n)
	}
	c.run(3*time.Second, nil)
	nodes := c.running()
	if !c.converged(nodes) {
		t.Fatalf("not up: %s", c.describe())
	}
	c.lossy = func(*simNode, *simNode) bool { return c.random.Float64() < 0.3 }
	c.run(10*time.Minute, nil)
	c.lossy = nil
	if !c.run(5*time.Second, c.settled) || len(c.running()) != len(nodes) {
		t.Errorf("after loss:\n%s", c.describe())
	}
	for _, n := range nodes {
		for _, e := range n.events {
			switch e.(type) {
			case core.MemberDowned, core.MemberRemoved:
				t.Errorf("%v: %v", n.config.Self, e)
			}
		}
	}
}

package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

type plan struct {
	nodes   int
	faults  int
	clean   bool          // the only fault is one split
	lasts   time.Duration // how long that split lasts; 0 means a random time
	racks   bool          // the nodes of a server have consecutive names, as those of a rack do
	pause   time.Duration // the longest usual pause between two faults
	drift   int           // of clocks, in parts of a million
	cramped bool          // set by byTable
	told    bool          // operators down processes that have died
	offset  time.Duration // the largest difference between clocks
	most    int           // how many processes may run at a time
	settle  time.Duration // the time within which a healed cluster must have one view
	world   sim.Config
	config  membership.Config // of every node, without its name and role
}

const minNodes, maxNodes = 5, 30

// newPlan makes a random plan. Small clusters are more frequent: they are cheaper and find more
// failures.
func newPlan(r *rand.Rand, o Options) plan {
	p := plan{
		nodes:  minNodes + min(r.IntN(maxNodes-minNodes+1), r.IntN(maxNodes-minNodes+1), r.IntN(maxNodes-minNodes+1)),
		faults: 4 + r.IntN(14),
		pause:  time.Duration(500+r.IntN(3500)) * time.Millisecond,
		drift:  pick(r, 100, 1000, 10_000),
		settle: time.Minute,
		offset: 1000 * time.Hour,
	}
	p.most = p.nodes + 2
	p.world = sim.Config{
		Seed:         r.Uint64(),
		Servers:      pick(r, 1, 2, 3, 3, 4),
		Latency:      milliseconds(r, 0.1, 3),
		Jitter:       milliseconds(r, 0, pick(r, 1.0, 1, 20)),
		Between:      milliseconds(r, 0.1, pick(r, 1.0, 5, 30)),
		Spread:       milliseconds(r, 1, pick(r, 5.0, 100)),
		Redial:       milliseconds(r, 50, 200),
		RouteTimeout: milliseconds(r, 500, pick(r, 2000.0, 20_000)),
		HostTimeout:  milliseconds(r, 5000, pick(r, 20_000.0, 240_000)),
		Failover:     r.IntN(2) == 0,
		Recode:       r.IntN(8) == 0,
		Trace:        o.Trace,
	}
	if r.IntN(2) == 0 {
		p.world.PingTimeout = milliseconds(r, 1000, 10_000)
	}
	if r.IntN(4) == 0 {
		p.world.Repeat = 0.5
	}
	if r.IntN(3) == 0 {
		p.world.StoreTrouble = 0.3
	}
	p.config = newConfig(r)
	if o.Table {
		p.byTable(r)
		return p
	}
	p.downing(r)
	p.clean = r.IntN(8) == 0 && p.world.Servers > 1 && p.config.Downing != membership.DowningAuto
	if p.clean {
		// With names by racks, the first members in every order except the hashed one may be in one
		// rack.
		p.racks = r.IntN(4) > 0
		if r.IntN(4) > 0 {
			p.config.SmallCluster = 1 + r.IntN(4)
		}
	}
	return p
}

func (p *plan) byTable(r *rand.Rand) {
	c := &p.config
	c.ProbeVacancy, c.Seeds = false, nil
	p.offset = pick(r, time.Second, time.Minute, time.Hour) // rows have wall times, which only people read
	c.Table = membership.Table{
		Enabled: true, ProbeInterval: milliseconds(r, 1000, pick(r, 3000.0, 10_000)), Successors: 1 + r.IntN(4),
		AliveInterval: milliseconds(r, 2000, 10_000), Refresh: milliseconds(r, 5000, 60_000), CleanAfter: milliseconds(r, 70_000, 600_000),
		VoteWindow: milliseconds(r, 20_000, 180_000), Within: milliseconds(r, 500, 5000),
	}
	c.Table.Outage = 3*c.Table.AliveInterval + milliseconds(r, 0, pick(r, 1000.0, 100_000))
	if r.IntN(2) == 0 {
		p.world.TableTrouble = pick(r, 0.02, 0.2)
	}
	p.world.TableGaps = r.IntN(2) == 0
	p.world.TableTime = milliseconds(r, 1, pick(r, 5.0, 50, 500))
	p.world.TableLate = milliseconds(r, 100, pick(r, 2000.0, 60_000))
	p.settle = 5 * time.Minute
	if p.cramped = r.IntN(3) > 0; !p.cramped {
		return
	}
	// These runs have few members, quick judgements, and few faults except those that divide the
	// members and the table.
	p.nodes = 3 + r.IntN(3)
	p.most = p.nodes + 1
	p.faults = 10 + r.IntN(30)
	p.pause = time.Duration(100+r.IntN(3000)) * time.Millisecond
	c.MinMembers, c.MinRoleMembers = 1, nil
	c.Table.ProbeInterval, c.Table.Missed, c.Table.Votes = milliseconds(r, 300, 1000), 1+r.IntN(3), 1+r.IntN(2)
	p.world.Servers = 1 + r.IntN(3)
	p.world.RouteTimeout = milliseconds(r, 500, 2000)
}

func (p *plan) downing(r *rand.Rand) {
	c := &p.config
	c.Downing = pick(r, broker, broker, broker, broker, broker, broker, membership.DowningManual, membership.DowningAuto,
		membership.DowningStaticQuorum, membership.DowningKeepMajority, membership.DowningKeepOldest, membership.DowningAll,
		membership.DowningLeaseMajority)
	if c.Downing == broker || c.Downing == membership.DowningManual {
		return
	}
	p.settle = 2 * time.Minute
	c.StableAfter = milliseconds(r, 5000, 8000)
	role := r.IntN(4) == 0
	switch c.Downing {
	case membership.DowningAuto:
		c.AutoDownAfter = milliseconds(r, 5000, 10_000)
		role = false
	case membership.DowningStaticQuorum:
		c.QuorumSize = p.nodes/2 + 1
		p.most = 2*c.QuorumSize - 1
		role = false // a random number of nodes has the role
	case membership.DowningKeepOldest:
		c.KeepOldestAlone = r.IntN(2) == 0
	case membership.DowningAll:
		role = false
	}
	if role {
		c.DowningRole = "blue"
	}
}

const broker = membership.DowningBroker

func cheap(seed uint64) bool {
	p := newPlan(newRandom(seed), Options{})
	return p.nodes <= 7 && time.Duration(p.faults)*p.pause < 14*time.Second
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0xc4a05)) }

func newConfig(r *rand.Rand) membership.Config {
	c := membership.Config{ProbeVacancy: r.IntN(2) == 0}
	some := func(share int, do func()) {
		if r.IntN(share) == 0 {
			do()
		}
	}
	some(2, func() { c.MonitoredBy = 1 + r.IntN(8) })
	some(2, func() { c.SmallCluster = 1 + r.IntN(8) })
	some(3, func() { c.Detection = membership.DetectionSingleObserver })
	some(3, func() { c.MinMembers = 1 + r.IntN(4) })
	some(6, func() { c.MinRoleMembers = []membership.RoleMinimum{{Role: "blue", Members: 1 + r.IntN(2)}} })
	some(3, func() { c.HeartbeatInterval = milliseconds(r, 200, 1500) })
	some(3, func() { c.WeaklyUpAfter = milliseconds(r, 500, 5000) })
	some(4, func() { c.PhiThreshold = 12 })
	some(4, func() { c.PauseAllowance = milliseconds(r, 1000, 5000) })
	some(4, func() { c.GossipInterval = milliseconds(r, 200, 2000) })
	some(3, func() {
		for i := range 1 + r.IntN(3) {
			c.Seeds = append(c.Seeds, name(i))
		}
	})
	return c
}

func name(i int) string { return fmt.Sprintf("n%02d", i) }

func (p *plan) server(r *rand.Rand, i int) int {
	if p.racks {
		return min(i*p.world.Servers/p.nodes, p.world.Servers-1)
	}
	return r.IntN(p.world.Servers)
}

func (p *plan) configOf(r *rand.Rand, name string) membership.Config {
	c := p.config
	c.Self = transport.Address{Name: name, Incarnation: r.Uint64()}
	c.Seed = r.Uint64()
	if r.IntN(2) == 0 {
		c.Roles = []string{"blue"}
	}
	return c
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func milliseconds(r *rand.Rand, from, to float64) time.Duration {
	return time.Duration((from + (to-from)*r.Float64()) * float64(time.Millisecond))
}

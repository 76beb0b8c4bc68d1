package shard

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/ops/verdict"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// Health is the health of a node or a connection at one moment. Package health serves it
// over HTTP and reports it to systemd.
type Health struct {
	// Live reports whether the process is worth keeping: it is false when the node or the
	// connection has ended, or when the node's control loop has not run for 30s. Then only a new
	// process helps.
	Live bool
	// Ready reports, for a node, whether it is an Up member that may run turns, and for a
	// connection, whether a member serves it. It is false as soon as the node begins to leave, and
	// while the broker cannot be reached. A node that hosts durable types is not ready while the
	// store has taken no writes for 5s.
	Ready bool
	// Settled reports whether Ready is true and a rolling restart may go on: nothing that it should
	// wait for is wrong here, or in the cluster as this process sees it. Credentials that end soon
	// and wrong clocks do not count.
	Settled bool
	// Ending reports whether the node is leaving, or the process is stopping or has stopped: it
	// will not be ready again.
	Ending bool
	// Reasons name the faults, each in a sentence without a full stop and with what to do: first
	// why Live or Ready is false, then other faults of this process and of the cluster as this
	// process sees it, and last what passes by itself, such as members that do not agree yet. If
	// there are more than 12, the first 12 are followed by a line with the number of the others.
	Reasons []string
}

func healthOf(found []operator.Finding, ending bool) Health {
	worst := verdict.Worst(found)
	_, waits := verdict.Unsettled(found)
	h := Health{Live: worst < operator.Dead, Ready: worst < operator.Unready, Settled: !waits, Ending: ending}
	for _, f := range found {
		if f.Severity >= operator.Passing {
			f.Node = "" // the reader knows the process
			h.Reasons = append(h.Reasons, f.Sentence())
		}
	}
	if more := len(h.Reasons) - maxReasons; more > 0 {
		h.Reasons = append(h.Reasons[:maxReasons:maxReasons], fmt.Sprintf("and %d more", more))
	}
	return h
}

const maxReasons = 12

// A watch judges the health of a node again and again, and logs faults that have begun or ended. It
// is safe for concurrent use.
type watch struct {
	mu     sync.Mutex
	memory verdict.Memory
	turns  []verdict.Turn
	lookAt time.Time // when to look for turns again
	// expiries are read again every expiryEvery.
	expiries []transport.Expiry
	readAt   time.Time
}

const (
	watchEvery = time.Second
	// lookShare bounds the cost of looking for long turns. If a look takes d, the next one begins
	// after lookShare times d.
	lookShare   = 100
	expiryEvery = 5 * time.Second
)

// watchHealth looks at the health every second until the node stops.
func (n *Node) watchHealth() {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-n.driver.Stop:
			return
		case <-ticker.C:
			_, _ = n.judge(time.Now())
		}
	}
}

// judge returns the findings, the worst first, and whether the node is ending.
func (n *Node) judge(now time.Time) (found []operator.Finding, ending bool) {
	n.watch.mu.Lock()
	defer n.watch.mu.Unlock()
	s, ending := n.snapshot(now)
	found, begun, ended := n.watch.memory.Judge(s)
	for _, f := range begun {
		if logs(f) {
			n.log.Warn("fault found", "check", f.Check, "fault", f.Text, "remedy", f.Do)
		}
	}
	for _, f := range ended {
		if logs(f) {
			n.log.Info("fault has ended", "check", f.Check, "fault", f.Text, "after", tenths(now.Sub(f.Since)))
		}
	}
	return found, ending
}

// logs reports whether a finding is logged. A finding that the node is not ready is not logged,
// because other lines say why.
func logs(f operator.Finding) bool { return f.Severity >= operator.Fault && f.Check != verdict.Ready }

// snapshot returns what the node knows of itself and the cluster. The caller holds watch.mu.
func (n *Node) snapshot(now time.Time) (s verdict.Snapshot, ending bool) {
	n.mu.Lock()
	state, err, leaveAt := n.state, n.err, n.leaveAt
	if state == stateStarted && n.cfg.Store != nil {
		n.probe.ask(now, n.driver.Durable.Appends.Wrote(), probeEvery, func() error { return tryStore(n) }, n.driver.Group.Go)
	}
	n.mu.Unlock()
	p := &verdict.Process{Name: n.cfg.Name, MinMembers: n.cfg.Membership.MinMembers, Durable: hostsDurable(n)}
	s = verdict.Snapshot{Now: now, Self: p}
	switch state {
	case stateNew:
		p.Stopped = "the node is not started"
	case stateOpening:
		p.Stopped = "the node connects to the broker and the store"
	case stateEnding:
		p.Stopped = endText("the node stops", err)
		select {
		case <-n.done:
			p.Ended = endText("the node has stopped", err)
		default:
		}
		return s, true
	case stateStarted:
		n.look(&s, leaveAt)
	}
	return s, p.Leaving != ""
}

func (n *Node) look(s *verdict.Snapshot, leaveAt time.Time) {
	p, drv, now := s.Self, n.driver, s.Now
	view := n.control.member.View()
	p.Stuck, p.Away = n.control.pulse.Stuck(drv.Lease.Now()), away(drv, now)
	switch {
	case view == nil || view.SelfStatus < membership.Up:
		p.Outside = "the node is not up: " + n.whyNotUp()
	case view.SelfStatus != membership.Up:
		p.Leaving = fmt.Sprintf("the node leaves the cluster and is %v", view.SelfStatus)
	case !drv.Lease.Valid():
		p.Lease = node.NoContact(drv.Local.Name)
	}
	if !leaveAt.IsZero() && p.Leaving == "" {
		p.Leaving = "the node drains: it leaves the cluster next"
		if d := leaveAt.Sub(now); d > 0 {
			p.Leaving = fmt.Sprintf("the node drains: it still serves, and leaves the cluster in %v", tenths(d))
		}
	}
	if view == nil {
		return
	}
	s.View, s.Downed = control.MembersOf(view), n.events.takeLost()
	s.Answers = []verdict.Answer{{Node: drv.Local.Address, Types: waitingTypes(drv, n.control.member.Reasons(), now, func(kind string) bool { return isPool(n, kind) })}}
	p.Store, p.StoreSince = n.probe.said()
	if d := drv.Durable; d != nil {
		p.ClockAhead = d.Clock.Ahead(now)
	}
	n.probeTable(now, len(s.View.Members))
	p.Table, p.TableSince = n.tableProbe.said()
	for _, h := range n.hosted() {
		if why := h.StuckShards(now); why != "" {
			s.Answers[0].Types = append(s.Answers[0].Types, operator.Type{Kind: h.Desc.Name, Stuck: why})
		}
		if w, bad := h.Writes(now); bad {
			p.Writes = append(p.Writes, w)
		}
	}
	w := &n.watch
	if !now.Before(w.lookAt) {
		began := time.Now()
		w.turns = node.TurnsUnderWay(n.hosted()).Long(drv.Clock.Load(), began)
		w.lookAt = now.Add(max(watchEvery/2, lookShare*time.Since(began)))
	}
	if link, ok := drv.Link().(transport.Expiring); ok && now.Sub(w.readAt) >= expiryEvery {
		w.expiries, w.readAt = link.Expiries(), now
	}
	p.Turns, p.Expiries = w.turns, w.expiries
	p.BufferBytes, p.BufferLimit = drv.Budget.Used(), int64(drv.Config.BufferBytes)
	p.Overloaded, p.OverQuota = drv.Refusals.Overloaded(), drv.Counts[node.ClientOverQuota].Load()
}

// expiries returns the connection's certificates and credentials that expire.
func (n *Node) expiries() []transport.Expiry {
	n.watch.mu.Lock()
	defer n.watch.mu.Unlock()
	return n.watch.expiries
}

func endText(text string, err error) string {
	if err != nil {
		return text + ": " + err.Error()
	}
	return text
}

// waitingTypes returns the types that have homeless shards, or calls that wait here for a home. The
// function pool reports whether a type is a pool.
func waitingTypes(drv *node.Driver, reasons *control.Reasons, now time.Time, pool func(kind string) bool) (all []operator.Type) {
	table, kinds := drv.ShardTable.Load(), *drv.Kinds.Load()
	names := table.Types()
	for name := range kinds { //arch:order-free they are sorted
		if table.Type(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		k := table.Type(name)
		t := operator.Type{Kind: name, Waiting: uint32(drv.HeldFor(name)), Shards: k.Shards(), Homeless: homeless(k, pool(name))}
		if int(t.Waiting)+len(t.Homeless) == 0 {
			continue
		}
		t.Why = whyWaits(drv, reasons, name, t.Waiting > 0, now)
		all = append(all, t)
	}
	return all
}

// whyWaits returns why shards of a type have no home, as far as this process knows.
func whyWaits(drv *node.Driver, reasons *control.Reasons, name string, waiting bool, now time.Time) string {
	why := reasons.Lately(name, now)
	if why == "" && waiting {
		why, _ = drv.Control.Waits(name, now)
	}
	return why
}

// homeless returns the shards that should have a home and have none. In a pool, shards above the
// highest shard with a home need none; if no shard has a home, only the first needs one.
func homeless(k *placement.TypeTable, pool bool) (numbers []uint32) {
	has := min(1, int(k.Shards())) // how many elements of numbers count in a pool
	for number := k.Shards(); number < 2*k.Shards(); number++ {
		if e, ok := k.Lookup(number); !ok || e.Home.IsZero() {
			numbers = append(numbers, number)
		} else {
			has = len(numbers)
		}
	}
	if pool {
		return numbers[:has]
	}
	return numbers
}

// isPool reports whether this member knows the type as a pool.
func isPool(n *Node, kind string) bool {
	k := (*n.driver.Kinds.Load())[kind]
	return k != nil && k.Desc.Pool || hostmeta.IsPool(n.control.member.View(), kind)
}

func away(drv *node.Driver, now time.Time) time.Duration {
	channels := []transport.Channel{transport.Control}
	for lane := range drv.Config.Lanes {
		channels = append(channels, transport.Channel(lane))
	}
	return drv.Reach.Away(now, channels...)
}

func hostsDurable(n *Node) bool {
	return slices.ContainsFunc(n.hosted(), func(h *node.Host) bool { return h.Desc.Durable })
}

func connHealth(c *Conn, now time.Time) Health {
	p := &verdict.Process{Name: c.cfg.Name, Away: away(c.driver, now)}
	s := verdict.Snapshot{Now: now, Self: p}
	select {
	case <-c.done:
		p.Ended = "the connection is closed"
	default:
	}
	ending := p.Ended != ""
	if c.driver.Closed() {
		ending, p.Stopped = true, "the connection is being closed"
	}
	c.mu.Lock()
	silent := now.Sub(c.heardAt)
	c.mu.Unlock()
	if silent > 2*control.HelloEvery {
		p.Outside = fmt.Sprintf("no member has answered this process for %v", tenths(silent))
	}
	s.Answers = []verdict.Answer{{Node: c.driver.Local.Address, Types: waitingTypes(c.driver, &c.reasons, now, func(kind string) bool { // an unknown type may be a pool
		k := (*c.driver.Kinds.Load())[kind]
		return k == nil || k.Desc.Pool
	})}}
	return healthOf(verdict.Judge(s), ending)
}

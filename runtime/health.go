package shard

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/node"
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
	// store does not answer.
	Ready bool
	// Ending reports whether the node is leaving, or the process is stopping or has stopped: it
	// will not be ready again.
	Ending bool
	// Reasons name the faults, each in a sentence without a full stop: first why Live or Ready is
	// false, then faults elsewhere in the cluster as this process sees it, such as shards without a
	// home. It is empty without faults.
	Reasons []string
}

// vitals are the facts about a process's health. A text is "" without that fault.
type vitals struct {
	ended   string // the reason why it has ended
	ending  bool
	stuck   time.Duration // how long the control loop has not run
	stopped string        // why it has not started, or stops
	away    time.Duration // how long it has had no connection to the broker
	outside string        // why it is not a full member, or no member serves it
	leaving string
	lease   string // why it runs no turns
	store   string // the fault of the store
	notes   []string
}

// loopPatience is how long the control loop may stand still before Live is false.
const loopPatience = 30 * time.Second

const maxNotes = 10

func (v vitals) health() Health {
	if v.ended != "" {
		return Health{Ending: true, Reasons: []string{v.ended}}
	}
	h := Health{Live: v.stuck < loopPatience, Ending: v.ending || v.leaving != ""}
	if !h.Live {
		h.Reasons = append(h.Reasons, fmt.Sprintf("the control loop has not run for %v", tenths(v.stuck)))
	}
	if v.away > 0 {
		h.Reasons = append(h.Reasons, fmt.Sprintf("the broker has not been reached for %v", tenths(v.away)))
	}
	for _, why := range []string{v.stopped, v.outside, v.leaving, v.lease, v.store} {
		if why != "" {
			h.Reasons = append(h.Reasons, why)
		}
	}
	h.Ready = len(h.Reasons) == 0
	if more := len(v.notes) - maxNotes; more > 0 {
		v.notes = append(v.notes[:maxNotes:maxNotes], fmt.Sprintf("and %d more", more))
	}
	h.Reasons = append(h.Reasons, v.notes...)
	return h
}

func nodeHealth(n *Node, now time.Time) Health {
	n.mu.Lock()
	state, err, leaveAt := n.state, n.err, n.leaveAt
	if state == stateStarted && n.cfg.Store != nil {
		n.probe.ask(now, func() error { return askStore(n) }, n.driver.Group.Go)
	}
	n.mu.Unlock()
	v := vitals{}
	switch state {
	case stateNew:
		v.stopped = "the node is not started"
	case stateOpening:
		v.stopped = "the node connects to the broker and the store"
	case stateEnding:
		v.ending, v.stopped = true, endText("the node stops", err)
		select {
		case <-n.done:
			v.ended = endText("the node has stopped", err)
		default:
		}
	case stateStarted:
		examine(n.control, &v, now)
		if !leaveAt.IsZero() && v.leaving == "" {
			v.leaving = "the node drains: it leaves the cluster next"
			if d := leaveAt.Sub(now); d > 0 {
				v.leaving = fmt.Sprintf("the node drains: it still serves, and leaves the cluster in %v", tenths(d))
			}
		}
		if v.outside == joinText {
			v.outside = "the node is not up: " + n.whyNotUp()
		}
		if why := n.probe.said(now); why != "" && hostsDurable(n) {
			v.store = why
		} else if why != "" {
			v.notes = append(v.notes, why)
		}
		for _, h := range n.hosted() {
			if why := h.StuckShards(now); why != "" {
				v.notes = append(v.notes, why)
			}
		}
	}
	return v.health()
}

func endText(text string, err error) string {
	if err != nil {
		return text + ": " + err.Error()
	}
	return text
}

// joinText is the fault of a node that is not yet Up, until nodeHealth knows the reason.
const joinText = "not up"

func examine(c *controlLoop, v *vitals, now time.Time) {
	drv := c.driver
	v.stuck = c.pulse.Stuck(drv.Lease.Now())
	v.away = away(drv, now)
	view := c.member.View()
	if view == nil || view.SelfStatus < membership.Up {
		v.outside = joinText
	} else if view.SelfStatus != membership.Up {
		v.leaving = fmt.Sprintf("the node leaves the cluster and is %v", view.SelfStatus)
	} else if !drv.Lease.Valid() {
		v.lease = node.NoContact(drv.Local.Name)
	}
	if view == nil {
		return
	}
	noted := false
	for _, m := range view.ByAge {
		switch {
		case m.Status == membership.Down && m.MayRun():
			v.notes = append(v.notes, fmt.Sprintf("%s was downed, and its shards wait until it certainly runs no turns", m.Name))
		case m.Status != membership.Down && !m.Reachable:
			v.notes = append(v.notes, fmt.Sprintf("%s cannot be reached (%v) and is not downed yet", m.Name, m.Evidence))
		default:
			continue
		}
		noted = true
	}
	if !noted && !view.Converged {
		v.notes = append(v.notes, "the members do not agree: "+view.Why)
	}
	noteHomes(drv, v, c.member.Reasons(), now, func(kind string) bool { return isPool(c.node, kind) })
}

func noteHomes(drv *node.Driver, v *vitals, reasons *control.Reasons, now time.Time, pool func(kind string) bool) {
	table, kinds := drv.ShardTable.Load(), *drv.Kinds.Load()
	names := table.Types()
	for name := range kinds {
		if table.Type(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		k := table.Type(name)
		waiting, homeless := drv.HeldFor(name), len(homeless(k, pool(name)))
		if waiting+homeless == 0 {
			continue
		}
		text := fmt.Sprintf("%d calls of %s wait for a home", waiting, name)
		if homeless > 0 {
			text = fmt.Sprintf("%d of %d shards of %s have no home, and %d calls wait", homeless, k.Shards(), name, waiting)
		}
		why := reasons.Lately(name, now)
		if why == "" && waiting > 0 {
			why, _ = drv.Control.Waits(name, now)
		}
		if why != "" {
			text += ": " + why
		}
		v.notes = append(v.notes, text)
	}
}

// homeless returns the shards that should have a home and have none. Those of a pool are its instances
// below the highest one with a home, and its first one.
func homeless(k *placement.TypeTable, pool bool) (numbers []uint32) {
	has := min(1, int(k.Shards())) // of those without a home, how many count in a pool
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

// isPool reports whether the type is a pool, as this member knows.
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

func askStore(n *Node) error {
	ctx, cancel := context.WithTimeout(n.driver.Context, storePatience)
	defer cancel()
	_, err := durablehost.LastTerm(ctx, n.cfg.Store, n.cfg.Cluster)
	return err
}

func connHealth(c *Conn, now time.Time) Health {
	v := vitals{away: away(c.driver, now)}
	select {
	case <-c.done:
		v.ended = "the connection is closed"
		return v.health()
	default:
	}
	if c.driver.Closed() {
		v.ending, v.stopped = true, "the connection is being closed"
	}
	c.mu.Lock()
	silent := now.Sub(c.heardAt)
	c.mu.Unlock()
	if silent > 2*control.HelloEvery {
		v.outside = fmt.Sprintf("no member has answered this process for %v", tenths(silent))
	}
	noteHomes(c.driver, &v, &c.reasons, now, func(kind string) bool { // a type that this process does not call may be one
		k := (*c.driver.Kinds.Load())[kind]
		return k == nil || k.Desc.Pool
	})
	return v.health()
}

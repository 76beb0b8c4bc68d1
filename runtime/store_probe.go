package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/driver/durablehost"
)

// A storeProbe finds out for the node's health whether a store answers: it tries a request again and
// again, every probeAgainAfter while that fails. It is safe for concurrent use.
type storeProbe struct {
	mu      sync.Mutex
	running bool
	began   time.Time // when the latest try began
	failing time.Time // when the first failed try in a row began; zero: the latest succeeded
	err     error
}

// Bounds of probes. One try may take storePatience. The members together probe their table at most
// ten times a second.
const (
	storePatience   = 2 * time.Second
	probeEvery      = 5 * time.Second
	probeAgainAfter = time.Second // while the store does not answer
	probeOfMember   = 100 * time.Millisecond
)

// ask calls spawn to run the function try, if a try is due and no earlier try is running. After a
// failed try, the next one is due probeAgainAfter after the failed one began. After a successful
// try, the next one is due when the duration every has passed since that try began and also since
// the time other. other is when the store last answered a similar request.
func (p *storeProbe) ask(now, other time.Time, every time.Duration, try func() error, spawn func(func())) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, pause := p.began, probeAgainAfter
	if p.failing.IsZero() {
		pause = every
		if other.After(last) {
			last = other
		}
	}
	if p.running || now.Sub(last) < pause {
		return
	}
	p.running, p.began = true, now
	spawn(func() {
		err := try()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running, p.err = false, err
		switch {
		case err == nil:
			p.failing = time.Time{}
		case p.failing.IsZero():
			p.failing = now
		}
	})
}

// said returns why the store does not answer, and since when; "" means that it does.
func (p *storeProbe) said() (string, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failing.IsZero() || errors.Is(p.err, context.Canceled) {
		return "", time.Time{}
	}
	return p.err.Error(), p.failing
}

// tryStore writes the record that the cluster's members write only to see whether the store takes
// writes.
func tryStore(n *Node) error {
	ctx, cancel := context.WithTimeout(n.driver.Context, storePatience)
	defer cancel()
	return durablehost.TryWrite(ctx, n.cfg.Store, n.cfg.Cluster)
}

// probeTable reads the membership table.
func (n *Node) probeTable(now time.Time, members int) {
	if n.control.table == nil {
		return
	}
	n.tableProbe.ask(now, time.Time{}, max(probeEvery, time.Duration(members)*probeOfMember), func() error {
		ctx, cancel := context.WithTimeout(n.driver.Context, storePatience)
		defer cancel()
		return n.control.table.Reach(ctx)
	}, n.driver.Group.Go)
}

func tenths(d time.Duration) time.Duration {
	const tenth = 100 * time.Millisecond
	return (d + tenth - 1).Truncate(tenth)
}

// identifyStore announces the store's identity: a member with another store must be refused.
func (n *Node) identifyStore(ctx context.Context) error {
	if n.cfg.Store == nil {
		return nil
	}
	id, err := durablehost.Identity(ctx, n.cfg.Store, n.cfg.Cluster, n.cfg.Name, n.driver.Local.Incarnation)
	if err != nil {
		return fmt.Errorf("start node %s: %w", n.cfg.Name, err)
	}
	n.askTime(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.store = id
	return n.control.member.Prepare(controlSetup(n))
}

// askTime asks the store for its time before any shard opens, so that all shards use the store's
// time from their beginning. If the store does not answer, the clock asks again later.
func (n *Node) askTime(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	if _, err := n.driver.Durable.Clock.Ask(ctx); err != nil {
		n.log.Debug("the store has not given its time yet", "err", err)
	}
}

// watchStore ends the node if its client of the store reconnects to another store, because the
// other members would not find there what this node writes.
func (n *Node) watchStore() {
	seen := durablehost.Outages(n.cfg.Store.Shards())
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-n.driver.Stop:
			return
		case <-ticker.C:
		}
		outages := durablehost.Outages(n.cfg.Store.Shards())
		if outages == seen {
			continue
		}
		ctx, cancel := context.WithTimeout(n.driver.Context, storePatience)
		err := durablehost.CheckIdentity(ctx, n.cfg.Store, n.cfg.Cluster, n.store)
		cancel()
		switch {
		case err == nil:
			seen = outages
		case errors.Is(err, durablehost.ErrOtherStore):
			n.stop(fmt.Errorf("node %s: %w (Config.Store must reach the same store through each NATS server of the cluster; behind a leaf node, set natsstore.Config.Domain to the hub's domain)", n.cfg.Name, err))
			return
		}
	}
}

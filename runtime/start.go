package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// Start connects to the broker and joins the cluster. It returns nil when the node is Up, or with
// Config.Membership.JoinByCommand when it is connected. Otherwise it returns an error with the
// reason: an invalid config or host, an unreachable broker, or a refusal by the cluster. ctx bounds
// only the start: if the node is not Up when ctx ends, it leaves again, within 2s.
func (n *Node) Start(ctx context.Context) error {
	err := n.begin(ctx)
	if err == nil {
		if err = (requests{n}).serve(ctx); err != nil {
			n.stop(err)
			<-n.done
		}
	}
	if err != nil || n.cfg.Membership.JoinByCommand {
		return err
	}
	if n.awaitUp(ctx) {
		return n.startErr()
	}
	err = fmt.Errorf("start node %s: %w: %s", n.cfg.Name, ctx.Err(), n.whyNotUp())
	n.giveUpJoining(err)
	return err
}

// Run calls Start, waits for ctx to end, and calls Shutdown. Shutdown may take 10s longer than
// Config.Membership.LeaveDelay and Config.Membership.LeaveTimeout together. Run returns nil after
// the node has left in order, and if ctx ends before the node is Up; otherwise it returns the
// reason why the node ended.
func (n *Node) Run(ctx context.Context) error {
	if err := n.Start(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		return err
	}
	select {
	case <-ctx.Done():
	case <-n.done:
		return n.Err()
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.leaveTime())
	defer cancel()
	return n.Shutdown(leave)
}

// takeBackTime is the longest time that a node takes to leave if it was never Up. Such a node has
// no shards, so one or two rounds of gossip are enough.
const takeBackTime = 2 * time.Second

func (n *Node) giveUpJoining(why error) {
	n.control.leave()
	ctx, cancel := context.WithTimeout(context.Background(), takeBackTime)
	defer cancel()
	select {
	case <-n.gone:
		_ = n.sayGoodbye(ctx) // why is the node's error
	case <-ctx.Done():
	case <-n.done:
	}
	n.stop(why)
	<-n.done
}

// tellAfter is the time after which a start or a dial that still waits logs the reason.
const tellAfter = 2 * time.Second

// awaitUp waits until the node is Up or has failed, and then returns true. If ctx ends before that,
// it returns false. If awaitUp still waits after tellAfter, it logs why.
func (n *Node) awaitUp(ctx context.Context) bool {
	late := time.NewTimer(tellAfter)
	defer late.Stop()
	for {
		select {
		case <-n.up:
			return true
		case <-late.C:
			n.log.Warn("still joining", "cluster", n.cfg.Cluster, "after", tellAfter, "why", n.whyNotUp())
		case <-ctx.Done():
			return false
		}
	}
}

func (n *Node) whyNotUp() string {
	v := n.events.current()
	if n.cfg.Membership.JoinByCommand && (v == nil || v.SelfStatus == membership.NoStatus) {
		return "no member has admitted this node yet; it joins by command (shardctl join " + n.cfg.Name + ")"
	}
	if v == nil || v.SelfStatus == membership.NoStatus {
		return fmt.Sprintf("no member has admitted this node yet; it gives up after Config.Membership.JoinTimeout (%v)", n.cfg.Membership.JoinTimeout)
	}
	if there := v.Count(membership.Joining, membership.WeaklyUp, membership.Up); there < n.cfg.Membership.MinMembers {
		return fmt.Sprintf("%d members have joined, and Config.Membership.MinMembers is %d", there, n.cfg.Membership.MinMembers)
	}
	if !v.Converged && v.Table != nil {
		return v.Why
	}
	if !v.Converged {
		return "the members do not agree yet: " + v.Why
	}
	return "the leader has not admitted it yet (does a role lack members? see Config.Membership.MinRoleMembers)"
}

// begin connects the node and starts its loops. It may be repeated after an error.
func (n *Node) begin(ctx context.Context) error {
	ctx, give := context.WithCancel(ctx)
	defer give()
	if err := n.opening(give); err != nil {
		return err
	}
	defer n.driver.Group.Done()
	if err := checkStore(ctx, n); err != nil {
		return n.notBegun(err)
	}
	if err := n.identifyStore(ctx); err != nil {
		return n.notBegun(err)
	}
	if err := n.driver.OpenDirect(ctx); err != nil {
		return n.notBegun(err)
	}
	link, err := n.cfg.Transport.Open(ctx, transport.Options{ // without n.mu: Close must not wait for Open
		Cluster: n.cfg.Cluster, Self: n.driver.Local.Address, Lanes: n.cfg.Lanes,
		OnState: n.connState, Logger: n.log,
	})
	if err == nil {
		if err = peers.CheckPayload(link); err != nil {
			_ = link.Close()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.give = nil
	switch {
	case n.state == stateEnding:
		if err == nil {
			_ = link.Close()
		}
		return fmt.Errorf("start node %s: %w", n.cfg.Name, n.driver.ErrClosed())
	case err != nil:
		n.driver.Direct.Load().Close()
		n.state = stateNew
		return fmt.Errorf("start node %s: %w", n.cfg.Name, err)
	}
	n.state, n.link, n.control.link = stateStarted, link, link
	n.driver.Open(link)
	n.driver.Group.Go(n.control.receive)
	n.driver.Group.Go(func() { n.control.run(n.driver.Stop) })
	n.memory.Begin(link.MaxPayload())
	n.driver.Group.Go(func() { n.memory.Run(n.driver.Stop) })
	for _, h := range n.hosted() {
		if h.Settings.Idle > 0 || h.Settings.MaxActive > 0 {
			n.driver.Group.Go(node.NewPassivator(h).Run)
		}
	}
	n.driver.Group.Go(n.tickClock)
	n.driver.Group.Go(n.watchHealth)
	if n.store != "" {
		n.driver.Group.Go(n.watchStore)
	}
	if d := n.driver.Durable; d != nil {
		n.driver.Group.Go(func() { d.Clock.Run(n.driver.Context, n.log) })
	}
	return nil
}

func (n *Node) notBegun(err error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.give = nil
	if n.state == stateOpening {
		n.state = stateNew
	}
	return err
}

// opening marks the node as connecting, or fails if it may not connect now. The driver then does
// not end before begin has returned.
func (n *Node) opening(give context.CancelFunc) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch n.state {
	case stateOpening, stateStarted:
		return fmt.Errorf("start node %s: %w (call Start once; Done is closed when the node has stopped)", n.cfg.Name, ErrStarted)
	case stateEnding:
		return fmt.Errorf("start node %s: %w", n.cfg.Name, n.driver.ErrClosed())
	case stateNew:
	}
	if err := errors.Join(append(n.hostErr, n.cfgErr)...); err != nil {
		return err
	}
	if d := n.cfg.Membership.Downing; d.Strategy == membership.DowningAuto && len(n.hosted()) > 0 && !d.AutoDownDespiteSharding {
		return fmt.Errorf("start node %s: auto-down splits a cluster in a partition, and every entity would be alive on each side "+
			"(choose another Membership.Downing.Strategy, or set AutoDownDespiteSharding)", n.cfg.Name)
	}
	if err := n.control.member.Prepare(controlSetup(n)); err != nil {
		return err
	}
	n.state, n.give = stateOpening, give
	n.driver.Group.Add()
	return nil
}

// checkStore compares the hosted types with the store's, and checks the rights that durable types
// need (ADR 0014).
func checkStore(ctx context.Context, n *Node) error {
	var types []string
	for _, h := range n.hosted() {
		if !h.Desc.Durable {
			if n.cfg.Store == nil {
				continue
			}
			if err := durablehost.CheckVolatile(ctx, n.cfg.Store, n.cfg.Cluster, h.Desc.Name); err != nil {
				return fmt.Errorf("start node %s: host %s: %w", n.cfg.Name, h.Desc.Name, err)
			}
			continue
		}
		if err := n.driver.Durable.Check(ctx, h.Desc.Name, h.Kind.Shards, h.Desc.HashName); err != nil {
			return fmt.Errorf("start node %s: host %s: %w", n.cfg.Name, h.Desc.Name, err)
		}
		types = append(types, h.Desc.Name)
	}
	if len(types) == 0 { // no durable type needs rights
		return nil
	}
	s, ok := n.cfg.Store.Shards().(interface {
		CheckRights(ctx context.Context, types ...string) error
	})
	if !ok { // the store is not JetStream
		return nil
	}
	if err := s.CheckRights(ctx, types...); err != nil {
		return fmt.Errorf("start node %s: %w", n.cfg.Name, err)
	}
	return nil
}

const serveTimeout = 5 * time.Second

// serving records whether the broker may direct clients without a table to this node.
type serving struct {
	wished atomic.Bool
	mu     sync.Mutex // held while the broker is informed, so that the latest value is sent last
}

// announce sends the latest value to the broker. It reports false if the broker may not have
// received it; a refusal counts as received.
func (s *serving) announce(ctx context.Context, link transport.Link, log *slog.Logger) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.wished.Load()
	try, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	err := link.Serve(try, on)
	if err != nil && ctx.Err() == nil {
		log.Warn("the broker was not informed whether this member serves clients", "serve", on, "err", err)
	}
	return err == nil || try.Err() == nil
}

const stopLook = 20 * time.Millisecond

// StopHosting moves all shards of a type, with their state, from this node to other members. From
// the call on, this Node takes no shards of the type; it can still call the type. Another Up member
// must host the type. StopHosting returns nil when the last shard has left and no calls wait here
// for a shard of the type. If ctx ends first, it returns the error of ctx, but the shards go on
// leaving; call StopHosting again to wait for them.
func (n *Node) StopHosting(ctx context.Context, kind string) error {
	fail := func(err error) error { return fmt.Errorf("stop hosting %s: %w", clip(kind), err) }
	c := n.control
	v := c.member.View()
	k := (*n.driver.Kinds.Load())[kind]
	switch {
	case v == nil:
		return fail(errNotJoined)
	case k == nil || k.Host == nil || k.Desc.Singleton:
		return fail(errors.New("this node hosts no such entity type (TypeNames returns the types of the cluster)"))
	case !slices.ContainsFunc(v.ByAge, func(m membership.MemberView) bool {
		return m.Address != n.driver.Local.Address && m.Status == membership.Up && hostmeta.Hosts(m.Member, kind)
	}):
		return fail(errors.New("no other Up member hosts the type (start one, or shut this node down)"))
	}
	k.Host.Stopped.Store(true)
	c.loop.Post(c.member.HostingChanged)
	look := time.NewTicker(stopLook)
	defer look.Stop()
	for k.Host.Holds() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return fail(fmt.Errorf("%w: shards of the type have not left yet (they go on leaving; call StopHosting again to wait)", ctx.Err()))
		case <-n.driver.Stop:
			return fail(n.driver.ErrClosed())
		}
	}
	return nil
}

// Join makes a node started with Config.Membership.JoinByCommand join the cluster, through the
// nodes named by seeds or, without seeds, as its config says. If the first seed is this node, it
// founds the cluster when no other seed answers. Join returns nil when the node is Up, and
// otherwise an error with the reason. If ctx ends first, only the waiting ends, and the node goes
// on joining. Further calls wait like the first.
func (n *Node) Join(ctx context.Context, seeds ...string) error {
	if !n.cfg.Membership.JoinByCommand {
		return fmt.Errorf("join node %s: the node joins at Start (to join by Join, set Config.Membership.JoinByCommand)", n.cfg.Name)
	}
	n.mu.Lock()
	state := n.state
	n.mu.Unlock()
	if state == stateNew || state == stateOpening {
		return fmt.Errorf("join node %s: the node is not started (call Start first)", n.cfg.Name)
	}
	done := make(chan error, 1)
	n.control.loop.Post(func() { done <- n.control.member.Join(seeds) })
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("join node %s: %w", n.cfg.Name, err)
		}
	case <-n.done:
		return fmt.Errorf("join node %s: %w", n.cfg.Name, n.driver.ErrClosed())
	case <-ctx.Done():
		return fmt.Errorf("join node %s: %w: its control loop has not run the command yet (try again)", n.cfg.Name, ctx.Err())
	}
	if n.awaitUp(ctx) {
		return n.startErr()
	}
	return fmt.Errorf("join node %s: %w: %s", n.cfg.Name, ctx.Err(), n.whyNotUp())
}

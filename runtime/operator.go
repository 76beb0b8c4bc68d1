package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/runtime/placement"
)

// Join makes a node that was started with Config.JoinByCommand join, through the
// nodes named by seeds or, if there are none, as its config says; the first seed
// may be this node, which then founds the cluster if no other answers. It returns
// when the node is Up, or with the reason why it cannot be. ctx bounds the
// waiting alone. Called again it waits like the first call.
func (n *Node) Join(ctx context.Context, seeds ...string) error {
	if !n.cfg.JoinByCommand {
		return fmt.Errorf("join node %s: it joins at Start (set Config.JoinByCommand)", n.cfg.Name)
	}
	if err := n.order(ctx, "join node "+n.cfg.Name, func() error { return n.control.member.Join(seeds) }); err != nil {
		return err
	}
	if n.awaitUp(ctx) {
		return n.startErr()
	}
	return fmt.Errorf("join node %s: %w: %s", n.cfg.Name, ctx.Err(), n.whyNotUp())
}

// Down declares a member dead: "name", or "name#incarnation" where several have the name.
// Its shards are given to others, so it must have stopped; the caller is responsible for
// that. A member that is up and reachable is refused unless force. A downed node that is
// alive stops itself with [ErrDowned].
func (n *Node) Down(ctx context.Context, member string, force bool) error {
	return n.order(ctx, "down "+member, func() error { return n.control.member.Down(member, force) })
}

var errNotStarted = errors.New("the node is not started (call Start first)")

// order runs f on the control loop of a node that runs.
func (n *Node) order(ctx context.Context, op string, f func() error) error {
	n.mu.Lock()
	state := n.state
	n.mu.Unlock()
	if state == stateNew || state == stateOpening {
		return fmt.Errorf("%s: %w", op, errNotStarted)
	}
	done := make(chan error, 1)
	n.control.loop.Post(func() { done <- f() })
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		return nil
	case <-n.done:
		return fmt.Errorf("%s: %w", op, n.plane.errClosed())
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: node %s does not get to it (try again)", op, ctx.Err(), n.cfg.Name)
	}
}

// leaveByOrder is Shutdown by an operator's word.
func (n *Node) leaveByOrder() {
	n.ordered.Do(func() {
		go func() { // ends with the node, which waits for none but its own
			ctx, cancel := context.WithTimeout(context.Background(), n.cfg.LeaveTimeout+10*time.Second)
			defer cancel()
			_ = n.Shutdown(ctx) // Err tells
		}()
	})
}

// An entity whose state does not decode cannot be activated. Its state is kept as it
// is, its calls say so, and an operator reads it, replaces it or drops it.

// errUnreadable names the commands for the state of such an entity.
func errUnreadable(kind, id string, err error) error {
	return fmt.Errorf("the state of %s/%s cannot be read and is kept as it is: %w (see it with shardctl state %s %s; the flags -from FILE and -drop replace or drop it)",
		kind, clip(id), err, kind, clip(id))
}

// unreadable are the entities of a type whose state could not be read lately.
type unreadable struct {
	mu  sync.Mutex // guards ids
	ids map[string]struct{}
}

// maxUnreadable bounds the ids that are noted of a type.
const maxUnreadable = 1000

func (u *unreadable) add(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil {
		u.ids = make(map[string]struct{})
	}
	if len(u.ids) < maxUnreadable {
		u.ids[id] = struct{}{}
	}
}

func (u *unreadable) remove(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ids, id)
}

func (u *unreadable) all() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.ids))
}

// repairs show and set the states of entities of a node.
type repairs struct{ node *Node }

// states serves an operator's requests about the states of entities of this node. It runs
// outside the control loop, because it may wait for their decoders.
func (p repairs) states(r *operator.Request) (found []operator.Entity, err error) {
	defer func() {
		if r := recover(); r != nil {
			found, err = nil, panicError("reading the state", r)
		}
	}()
	h, err := p.hostOf(r.Entity.Kind)
	if err != nil {
		return nil, err
	}
	if r.Entity.ID != "" {
		one, err := p.one(h, r)
		return []operator.Entity{one}, err
	}
	for _, id := range h.unreadable.all() {
		one, err := p.one(h, &operator.Request{Command: operator.State, Entity: operator.Entity{Kind: r.Entity.Kind, ID: id}})
		if err == nil && one.Why != "" {
			one.State = nil // all of them would be too much for one answer
			found = append(found, one)
		} else if err == nil {
			h.unreadable.remove(id) // it is elsewhere, or was mended
		}
	}
	return found, nil
}

func (p repairs) hostOf(kind string) (*host, error) {
	k := (*p.node.plane.kinds.Load())[kind]
	switch {
	case k == nil || k.host == nil:
		return nil, fmt.Errorf("this node does not host %s", clip(kind))
	case k.host.desc.Singleton:
		return nil, fmt.Errorf("%s is a singleton: one whose state cannot be read starts anew by itself", clip(kind))
	case k.host.desc.DecodeState == nil:
		return nil, fmt.Errorf("%s has no state", clip(kind))
	}
	return k.host, nil
}

// one shows the state of one entity, or sets it.
func (p repairs) one(h *host, r *operator.Request) (operator.Entity, error) {
	at := operator.Entity{Kind: r.Entity.Kind, ID: r.Entity.ID}
	_, number, err := port{h.kind}.Locate(at.ID)
	if err != nil {
		return at, err
	}
	s := p.node.hostedShard(placement.ShardID{Kind: at.Kind, Shard: number})
	if s == nil {
		return at, errors.New("no such shard")
	}
	s.Mu.Lock()
	open := s.Core.State() == region.Open
	var e *region.Entity
	if open {
		e = s.Core.Take(at.ID, p.node.plane.clock.Load())
	}
	s.Mu.Unlock()
	switch {
	case e != nil:
	case open:
		return at, errors.New("a call of it is under way (try again)")
	default:
		home, ok := p.node.plane.table.Load().Kind(at.Kind).Lookup(number)
		if !ok || home.Owner.IsZero() || home.Owner == p.node.plane.self.Address {
			return at, errors.New("its shard is on its way (try again)")
		}
		at.Node = home.Owner
		return at, nil
	}
	defer s.endTurn(e)
	at.Node, at.Active = p.node.plane.self.Address, e.Value != nil
	if r.Command == operator.SetState {
		return at, setState(s, e, r.Entity.State)
	}
	return at, showState(s, e, &at)
}

// showState takes the state of an entity whose turn the caller has.
func showState(s *hostedShard, e *region.Entity, to *operator.Entity) (err error) {
	if e.Value != nil {
		to.State, err = s.encodeState(e)
		return err
	}
	if to.State = slices.Clone(e.State); e.State != nil {
		if _, err := s.decodeState(s.host.desc.New(), e.State); err != nil {
			to.Why = err.Error()
		}
	}
	return nil
}

// setState replaces the state of an entity whose turn the caller has.
func setState(s *hostedShard, e *region.Entity, state []byte) error {
	if e.Value != nil {
		return errors.New("it is active, so its state is fine: call it")
	}
	if !s.mayRun() {
		return errors.New("its shard may be another node's (try again)")
	}
	if state != nil {
		if _, err := s.decodeState(s.host.desc.New(), state); err != nil {
			return fmt.Errorf("the new state cannot be read either: %w", err)
		}
	}
	before := len(e.State)
	e.State = state
	s.host.unreadable.remove(e.ID)
	s.plane().log.Warn("state set by an operator", "kind", s.ID.Kind, "entity", clip(e.ID), "bytes", len(state), "before", before, "dropped", state == nil)
	return nil
}

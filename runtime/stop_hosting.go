package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
)

// stopLook is the interval at which StopHosting checks whether the shards are gone.
const stopLook = 20 * time.Millisecond

// StopHosting moves all shards of a type, with their state, to other members, and takes
// no more: until its next start this node only calls the type. It returns nil when the
// last shard has left and no calls wait here for one. If ctx ends first, it returns the
// error of ctx, and the shards go on leaving. Another member must host the type. It may
// be called again, and waits again.
func (n *Node) StopHosting(ctx context.Context, kind string) error {
	fail := func(err error) error { return fmt.Errorf("stop hosting %s: %w", clip(kind), err) }
	c := n.control
	v := c.member.View()
	k := (*n.driver.Kinds.Load())[kind]
	switch {
	case v == nil:
		return fail(errNotJoined)
	case k == nil || k.Host == nil || k.Desc.Singleton:
		return fail(errors.New("this node hosts no such entity type (TypeNames has those of the cluster)"))
	case !slices.ContainsFunc(v.ByAge, func(m membership.MemberView) bool {
		return m.Address != n.driver.Local.Address && m.Status == membership.Up && hostmeta.Hosts(m.Member, kind)
	}):
		return fail(errors.New("no other member that is up hosts it (start one, or shut this node down)"))
	}
	k.Host.Stopped.Store(true)
	c.loop.Post(c.member.HostingChanged)
	look := time.NewTicker(stopLook)
	defer look.Stop()
	for k.Host.Holds() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return fail(fmt.Errorf("%w: its shards are still leaving (they go on; call it again to wait)", ctx.Err()))
		case <-n.driver.Stop:
			return fail(n.driver.ErrClosed())
		}
	}
	return nil
}

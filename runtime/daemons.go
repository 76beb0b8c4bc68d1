package shard

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/driver/runner"
	"github.com/shardgen/shardgen/internal/util/tasks"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// Pauses of a daemon between two runs of its function.
const (
	daemonPause    = time.Second
	daemonPauseMax = time.Minute
	daemonLook     = 50 * time.Millisecond // how often the lease is checked
)

// Daemons makes the cluster run fn for each number i from 0 to count-1. Each number is a daemon,
// and runs at one node. Call Daemons before Start, at each node that may run daemons, with the same
// name and count; a node with another count cannot join. The name is 1 to 64 letters, digits, _ and
// -. Daemons are spread over the nodes like shards, most evenly if count is a power of two. Options
// are those of types, such as [HostRole], but not [Handoff] and [Remember].
//
// fn should run until its ctx ends. The ctx ends when the daemon moves, the node ends, or the node
// has lost contact to the others for so long that another node may run the daemon. In an orderly
// move, the next node calls fn after fn has returned here. If fn has not returned after
// Config.HandoffTimeout, the move is given up, and fn runs here again once it has returned. If fn
// returns while its ctx goes on, or panics, it runs again after 1 s, doubling up to 1 min.
//
// At most one node runs a daemon, unless fn goes on after its ctx has ended. So a database should
// check what fn writes, for example by a compare-and-set of a position.
func Daemons(n *Node, name string, count int, fn func(ctx context.Context, i int) error, opts ...HostOption) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.daemonsLocked(name, count, fn, opts)
	if err != nil {
		n.hostErr = append(n.hostErr, err)
	}
	return err
}

const maxDaemons = 1 << 16

func (n *Node) daemonsLocked(name string, count int, fn func(ctx context.Context, i int) error, opts []HostOption) error {
	fail := func(err error) error { return fmt.Errorf("daemons %s: %w", clip(name), err) }
	switch {
	case fn == nil:
		return fail(errors.New("the function is nil"))
	case count < 1 || count > maxDaemons:
		return fail(fmt.Errorf("%d daemons (want 1 to %d)", count, maxDaemons))
	}
	// The package's name contains count, because joining nodes compare packages. Their shard counts
	// may be equal: 5 and 6 daemons both have 8.
	host := partsType("daemon-"+name, fmt.Sprintf("shardgen/daemon/%d", count), count)
	if err := n.hostLocked(host, opts); err != nil {
		return fail(err)
	}
	if s := n.options[host.Name]; s.Handoff != (region.Handoff{}) || s.Remembering != nil {
		return fail(errors.New("daemons move in order and have no entities (remove shard.Handoff and shard.Remember)"))
	}
	if h := n.driver.Kind(host.Kind).Host; h != nil { // nil: this node lacks the role
		h.Parts = node.NewParts(n.driver, count, daemon{n.driver, name, fn}.run)
	}
	return nil
}

// partsType describes a type whose shards run functions. It has no entities.
func partsType(name, pkg string, parts int) codegen.Host {
	return codegen.Host{
		Kind: codegen.Kind{Name: name, Package: pkg, Shards: 1 << bits.Len(uint(parts-1)), HashName: "xxh64"},
		New:  func() any { return new(struct{}) }, Dispatch: map[string]codegen.Method{},
	}
}

type daemon struct {
	driver *node.Driver
	name   string
	fn     func(ctx context.Context, i int) error
}

// run runs a daemon until ctx ends.
func (d daemon) run(ctx context.Context, i int) {
	pause := daemonPause
	for d.driver.WaitLease(ctx) == nil {
		began := time.Now()
		err := d.call(ctx, i)
		if ctx.Err() != nil || d.driver.Closed() || d.driver.Lease.Phase() >= runner.Ending {
			return
		}
		if time.Since(began) > daemonPauseMax {
			pause = daemonPause
		}
		d.driver.Logger.Warn("a daemon has ended, and runs again", "daemon", d.name, "number", i, "after", pause, "err", err)
		if !tasks.Rest(ctx, pause) {
			return
		}
		pause = min(2*pause, daemonPauseMax)
	}
}

// call runs the function once, until the lease ends.
func (d daemon) call(ctx context.Context, i int) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.driver.Group.Go(func() {
		look := time.NewTicker(daemonLook)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				if !d.driver.Lease.Valid() {
					cancel(errors.New(node.NoContact(d.driver.Local.Name)))
				}
			}
		}
	})
	defer func() {
		if r := recover(); r != nil {
			err = node.PanicError("the function of shard.Daemons", r)
		}
	}()
	if err = d.fn(ctx, i); err == nil {
		err = context.Cause(ctx) // the lease has ended, or nil
	}
	return err
}

package shard

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/shardgen/shardgen/internal/core/remember"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/driver/remembering"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

type rememberingNode struct{ node *Node }

var _ remembering.Process = rememberingNode{}

func (m rememberingNode) Self() transport.Address { return m.node.driver.Local.Address }

func (m rememberingNode) Cluster() string { return m.node.cfg.Cluster }

func (m rememberingNode) Log() *slog.Logger { return m.node.log }

func (m rememberingNode) Send(to transport.Address, msg remember.Message) {
	body, err := remember.Encode(msg)
	m.node.control.member.Send(transport.Peer{Address: to}, wire.ControlTopic_CONTROL_TOPIC_REMEMBER, body, err)
}

// Context returns a context that ends when the node stops.
func (m rememberingNode) Context() context.Context { return m.node.driver.Context }

// Stopped returns the error of a stopped node, and nil while the node runs.
func (m rememberingNode) Stopped() error { return m.node.driver.ErrClosed() }

// Go runs f on a goroutine that the node waits for.
func (m rememberingNode) Go(f func()) { m.node.driver.Group.Go(f) }

// MayAnswer reports whether the node's lease now lets it answer for its shards.
func (m rememberingNode) MayAnswer() bool { return m.node.driver.Lease.MayAnswer() }

// WaitLease waits until the node's lease lets it run turns.
func (m rememberingNode) WaitLease(ctx context.Context) error { return m.node.driver.WaitLease(ctx) }

// Full returns the error for an entity that cannot be remembered because its shard already
// remembers the maximum.
func (m rememberingNode) Full(err error) error {
	return fmt.Errorf("%w: %w (raise RememberOptions.MaxPerShard, or use more shards)", ErrOverloaded, err)
}

var rememberingReasons = [...]node.Reason{
	remembering.Activated:        node.RememberedActivated,
	remembering.ActivationFailed: node.RememberedFailed,
	remembering.Late:             node.RememberedLate,
	remembering.StoreFailed:      node.RememberFailed,
}

// Count raises the counter of e, and returns its new value and whether to log the event.
func (m rememberingNode) Count(e remembering.Counter) (n uint64, tell bool) {
	return m.node.driver.Counts.AddSeldom(rememberingReasons[e])
}

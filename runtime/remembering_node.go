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

// rememberingNode implements the interface of package remembering for a node.
type rememberingNode struct{ node *Node }

var _ remembering.Process = rememberingNode{}

// Self is the node's address.
func (m rememberingNode) Self() transport.Address { return m.node.driver.Local.Address }

// Cluster is the name of the cluster.
func (m rememberingNode) Cluster() string { return m.node.cfg.Cluster }

// Log returns the node's logger.
func (m rememberingNode) Log() *slog.Logger { return m.node.log }

// Send sends a message to a member.
func (m rememberingNode) Send(to transport.Address, msg remember.Message) {
	body, err := remember.Encode(msg)
	m.node.control.member.Send(transport.Peer{Address: to}, wire.ControlTopic_CONTROL_TOPIC_REMEMBER, body, err)
}

// Context ends when the node stops.
func (m rememberingNode) Context() context.Context { return m.node.driver.Context }

// Stopped returns the error of a node that has stopped.
func (m rememberingNode) Stopped() error { return m.node.driver.ErrClosed() }

// Go runs f on a goroutine that the node waits for.
func (m rememberingNode) Go(f func()) { m.node.driver.Group.Go(f) }

// MayAnswer reports whether the node may answer for its shards at this moment.
func (m rememberingNode) MayAnswer() bool { return m.node.driver.Lease.MayAnswer() }

// WaitLease waits until the node may run turns.
func (m rememberingNode) WaitLease(ctx context.Context) error { return m.node.driver.WaitLease(ctx) }

// Full returns the error for an entity whose shard remembers the maximum number of
// entities.
func (m rememberingNode) Full(err error) error {
	return fmt.Errorf("%w: %w (raise RememberOptions.MaxPerShard, or use more shards)", ErrOverloaded, err)
}

// rememberingReasons maps the counters of package remembering to those of a node.
var rememberingReasons = [...]node.Reason{
	remembering.Activated:        node.RememberedActivated,
	remembering.ActivationFailed: node.RememberedFailed,
	remembering.Late:             node.RememberedLate,
	remembering.StoreFailed:      node.RememberFailed,
}

// Count counts an event.
func (m rememberingNode) Count(e remembering.Counter) (n uint64, tell bool) {
	return m.node.driver.Counts.AddSeldom(rememberingReasons[e])
}

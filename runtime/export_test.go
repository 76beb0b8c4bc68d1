package shard

import (
	"context"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/runner"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/measure"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// ForgetCommands makes the shards of durable types forget the commands of callers that were silent
// for d. It is called before types are hosted.
func (n *Node) ForgetCommands(d time.Duration) { n.driver.Limits.Silent = d }

// KeepCommands sets how many ids of commands and how many keys each shard of a durable type keeps.
// It is called before types are hosted.
func (n *Node) KeepCommands(ids, keys int) {
	n.driver.Limits.Commands, n.driver.Limits.Keys = ids, keys
}

// GiveTellsUp makes undelivered tells of durable entities dead letters after d. It is called before
// types are hosted.
func (n *Node) GiveTellsUp(d time.Duration) { n.driver.Limits.DeadAfter = d }

// Expire makes entities of a durable type expire after ttl. It is called before the node starts.
func (n *Node) Expire(kind string, ttl time.Duration) {
	(*n.driver.Kinds.Load())[kind].Host.Desc.TTL = ttl
}

// WriteStates makes the node read and write states of a durable type in another version. It is
// called before the node starts.
func (n *Node) WriteStates(kind string, version int) {
	(*n.driver.Kinds.Load())[kind].Host.Desc.StateVersion = version
}

// UncheckTurns turns off the checks of turns that the node makes under go test only. It is called
// before types are hosted.
func (n *Node) UncheckTurns() { n.driver.ChecksTurns = false }

// Peer returns the node's name and incarnation as transports use them.
func (n *Node) Peer() transport.Peer { return n.driver.Local }

// shardOf returns the shard of an entity at this node.
func (n *Node) shardOf(kind, id string) *node.HostedShard {
	shard, err := (*n.driver.Kinds.Load())[kind].ShardOf(id)
	if err != nil {
		panic(err)
	}
	return n.hostedShard(placement.ShardID{Kind: kind, Shard: shard})
}

// Waiting returns how many calls wait for the entity's turn at this node.
func (n *Node) Waiting(kind, id string) (waiting int) {
	s := n.shardOf(kind, id)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if e := s.Core.Look(region.Hash(id), id); e != nil && e.OfTells() {
		return e.Mailbox()
	}
	s.Core.Find(id, func(c *region.Call) bool {
		if node.Inbound(c).Encoded.Load() == nil {
			waiting++
		}
		return false
	})
	return waiting
}

// LoseShard gives the node a table in which another node, to, is the home of the entity's shard.
func (n *Node) LoseShard(kind, id string, to transport.Address) {
	s := n.shardOf(kind, id)
	epoch, _ := s.Placement()
	s.Place(to, epoch+1, epoch.Term())
}

// Runs reports whether this node finds a call whose turn is under way at the entity.
func (n *Node) Runs(kind, id string) bool {
	s := n.shardOf(kind, id)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	c, running := s.Core.Find(id, func(*region.Call) bool { return true })
	return c != nil && running
}

// TurnsUnderWay describes the turns under way at this node, as an operator sees them at the first
// look.
func (n *Node) TurnsUnderWay() (all []string) {
	for _, t := range node.TurnsUnderWay(n.hosted()).Running() {
		all = append(all, t.Method+" of "+t.Kind+"/"+t.ID+" from "+t.From)
	}
	return all
}

// Started reports whether the node has a view of the cluster.
func (n *Node) Started() bool { return n.control.member.View() != nil }

// HealthAt returns the node's health at time now, if nothing changes until then.
func (n *Node) HealthAt(now time.Time) Health { return healthOf(n.judge(now)) }

// Opening reports whether the node is connecting.
func (n *Node) Opening() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state == stateOpening
}

// Kept returns the number of remembered ids that the node keeps for other members' shards.
func (n *Node) Kept() int {
	return n.memory.KeptFor()
}

// Placed returns the number of the entity's shard, and the epoch under which this node holds it.
func (n *Node) Placed(kind, id string) (shard uint32, epoch uint64) {
	s := n.shardOf(kind, id)
	at, _ := s.Placement()
	return s.ID.Shard, uint64(at)
}

// PassivateIdle passivates the entities of a kind as if nobody had called them for the idle time.
func (n *Node) PassivateIdle(kind string) {
	h := (*n.driver.Kinds.Load())[kind].Host
	n.driver.Clock.Add(uint32(h.Settings.Idle/node.ClockTick) + 2)
	p := node.NewPassivator(h)
	for range node.RarestLook {
		p.PassivateIdle()
	}
}

// Passivated returns the number of entities that were passivated. It allocates nothing.
func (n *Node) Passivated() uint64 { return n.driver.Counts[node.EntityPassivated].Load() }

// MakeRoom passivates entities of a kind if more are active than its bound allows.
func (n *Node) MakeRoom(kind string) {
	h := (*n.driver.Kinds.Load())[kind].Host
	h.CountActive()
	node.NewPassivator(h).MakeRoom()
}

// LoseLease ends the node's right to run turns, as if its lease had run out.
func (n *Node) LoseLease() { n.driver.Lease.End(runner.Over) }

// Peer returns the connection's name and incarnation as transports use them.
func (c *Conn) Peer() transport.Peer { return c.driver.Local }

// ShardOf returns the entity's shard.
func (c *Conn) ShardOf(kind, id string) placement.ShardID {
	shard, err := (*c.driver.Kinds.Load())[kind].ShardOf(id)
	if err != nil {
		panic(err)
	}
	return placement.ShardID{Kind: kind, Shard: shard}
}

// WaitingBytes returns the size in bytes of the calls that wait at the node.
func (n *Node) WaitingBytes() int64 { return n.driver.Budget.Used() }

// FillRunners makes the node's runners count as holding as many bytes of arguments as they may, or
// none.
func (n *Node) FillRunners(full bool) {
	most := 0
	if !full {
		most = n.driver.Config.RunnerBytes(len(n.driver.Runners))
	}
	for i := range n.driver.Runners {
		n.driver.Runners[i].SetMost(most)
	}
}

// SetClientPatience sets how long the node keeps the session of an absent client.
func (n *Node) SetClientPatience(d time.Duration) { n.driver.Sessions.SetClientPatience(d) }

// KnowsPeer reports whether the node has a session with the process.
func (n *Node) KnowsPeer(a transport.Address) bool { return n.driver.Sessions.Known(a, 0) != nil }

// KnowsTable reports whether the connection has a shard table.
func (c *Conn) KnowsTable() bool { return c.driver.ShardTable.Load() != nil }

// Begun reports whether the connection has a session with the entity's home, which has acknowledged
// everything sent.
func (c *Conn) Begun(kind, id string) bool {
	t := (*c.driver.Kinds.Load())[kind].Route(c.ShardOf(kind, id).Shard).Target()
	if t == nil || t.Session == nil {
		return false
	}
	t.Session.(*peers.Session).Lock()
	defer t.Session.(*peers.Session).Unlock()
	return t.Session.(*peers.Session).Core.Acked() > 0 && t.Session.(*peers.Session).Core.Acked() == t.Session.(*peers.Session).Core.Next()-1
}

// Appended returns how many messages the connection has appended to the session with the entity's
// home.
func (c *Conn) Appended(kind, id string) uint64 {
	t := (*c.driver.Kinds.Load())[kind].Route(c.ShardOf(kind, id).Shard).Target()
	if t == nil || t.Session == nil {
		return 0
	}
	t.Session.(*peers.Session).Lock()
	defer t.Session.(*peers.Session).Unlock()
	return t.Session.(*peers.Session).Core.Next() - 1
}

// Forge returns a context whose calls carry info, which only members may set.
func Forge(ctx context.Context, info wire.Info) context.Context { return node.WithOutgoing(ctx, info) }

// Inject sends any envelope to a node for the entity's shard, behind everything that the connection
// has sent for the shard. An empty Entity that is not nil stays empty.
func (c *Conn) Inject(to transport.Peer, kind, id string, e wire.Envelope) {
	at := c.ShardOf(kind, id)
	e.Kind, e.Shard = []byte(kind), at.Shard
	if e.Entity == nil {
		e.Entity = []byte(id)
	}
	c.driver.Sessions.Session(to, c.driver.LaneOf(at.Shard)).Post(&e)
}

// SetDirectBackOff sets, for all processes, the time until the next try after a direct lane has
// failed.
func SetDirectBackOff(d time.Duration) { node.DirectBackOff = d }

// DirectAddr returns the address at which the node listens for direct lanes.
func (n *Node) DirectAddr() string { return n.driver.Direct.Load().Addr().String() }

// DirectLanes returns the number of direct lanes of the node.
func (n *Node) DirectLanes() int { return n.driver.Direct.Load().Open() }

// DirectLane returns the direct lane to a process for a lane, or nil if there is none.
func (c *Conn) DirectLane(to transport.Peer, lane int) peers.DirectLane {
	return c.driver.Sessions.Session(to, lane).DirectLane()
}

// FindOnlyBy makes the node keep only one index of the type, like a node with another program. by
// is the Kind of the index, and the function keys appends its keys. If by is empty, the node keeps
// none. It is called before the node starts.
func (n *Node) FindOnlyBy(kind, by string, keys func(b []byte, entity any) []byte) {
	h := &(*n.driver.Kinds.Load())[kind].Host.Desc
	h.Indexes = slices.DeleteFunc(slices.Clone(h.Indexes), func(x codegen.Index) bool { return x.Kind != by })
	h.AppendIndexes = keys
}

// MeasureLoad ends an interval of the node's load, and returns its measurement.
func (n *Node) MeasureLoad() measure.Process {
	return n.driver.Load.Measure(n.driver.Lease.Now(), n.hosted()).Process
}

// ShardNumber returns the number of an entity's shard.
func (n *Node) ShardNumber(kind, id string) uint32 { return n.shardOf(kind, id).ID.Shard }

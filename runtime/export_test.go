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

// ForgetCommands has the shards of durable types forget the commands of callers that were
// silent for d. It is called before types are hosted.
func (n *Node) ForgetCommands(d time.Duration) { n.driver.Limits.Silent = d }

// KeepCommands has each shard of a durable type keep few ids of commands, and few keys. It is called before
// types are hosted.
func (n *Node) KeepCommands(ids, keys int) {
	n.driver.Limits.Commands, n.driver.Limits.Keys = ids, keys
}

// GiveTellsUp has tells of durable entities become dead letters after d. It is called before types
// are hosted.
func (n *Node) GiveTellsUp(d time.Duration) { n.driver.Limits.DeadAfter = d }

// Expire has entities of a durable type expire after ttl. It is called before the node starts.
func (n *Node) Expire(kind string, ttl time.Duration) {
	(*n.driver.Kinds.Load())[kind].Host.Desc.TTL = ttl
}

// WriteStates has the node read and write states of a durable type in another version. It is
// called before the node starts.
func (n *Node) WriteStates(kind string, version int) {
	(*n.driver.Kinds.Load())[kind].Host.Desc.StateVersion = version
}

// UncheckTurns has the node not hold turns to the promises of their types, as in a program. It is called before
// types are hosted.
func (n *Node) UncheckTurns() { n.driver.ChecksTurns = false }

// Peer is the node as transports name it.
func (n *Node) Peer() transport.Peer { return n.driver.Local }

// shardOf is the shard of an entity at this node.
func (n *Node) shardOf(kind, id string) *node.HostedShard {
	shard, err := (*n.driver.Kinds.Load())[kind].ShardOf(id)
	if err != nil {
		panic(err)
	}
	return n.hostedShard(placement.ShardID{Kind: kind, Shard: shard})
}

// Waiting is how many calls wait for the entity's turn at this node.
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

// LoseShard has the node follow a table in which the entity's shard belongs to another one.
func (n *Node) LoseShard(kind, id string, to transport.Address) {
	s := n.shardOf(kind, id)
	epoch, _ := s.Placement()
	s.Place(to, epoch+1, epoch.Term())
}

// Runs reports whether a call of the entity is found whose turn is under way at this node.
func (n *Node) Runs(kind, id string) bool {
	s := n.shardOf(kind, id)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	c, running := s.Core.Find(id, func(*region.Call) bool { return true })
	return c != nil && running
}

// TurnsUnderWay describes the turns under way at this node, as an operator sees them who begins to look.
func (n *Node) TurnsUnderWay() (all []string) {
	for _, t := range node.TurnsUnderWay(n.hosted()).Running() {
		all = append(all, t.Method+" of "+t.Kind+"/"+t.ID+" from "+t.From)
	}
	return all
}

// Started reports whether the node has joined as far as knowing of itself.
func (n *Node) Started() bool { return n.control.member.View() != nil }

// HealthAt is the node's health as it will be if nothing changes until then.
func (n *Node) HealthAt(now time.Time) Health { return healthOf(n.judge(now)) }

// Opening reports whether the node is connecting.
func (n *Node) Opening() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state == stateOpening
}

// Kept is the number of ids that the node keeps for other members' shards.
func (n *Node) Kept() int {
	return n.memory.KeptFor()
}

// Placed is the entity's shard on the wire, and the epoch under which it is here.
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

// MakeRoom makes room where more entities of a kind are active than may be.
func (n *Node) MakeRoom(kind string) {
	h := (*n.driver.Kinds.Load())[kind].Host
	h.CountActive()
	node.NewPassivator(h).MakeRoom()
}

// LoseLease ends the node's right to run turns, as when others may have its shards.
func (n *Node) LoseLease() { n.driver.Lease.End(runner.Over) }

// Peer is the connection as transports name it.
func (c *Conn) Peer() transport.Peer { return c.driver.Local }

// ShardOf is the entity's shard.
func (c *Conn) ShardOf(kind, id string) placement.ShardID {
	shard, err := (*c.driver.Kinds.Load())[kind].ShardOf(id)
	if err != nil {
		panic(err)
	}
	return placement.ShardID{Kind: kind, Shard: shard}
}

// WaitingBytes is how much the calls that wait at the node hold.
func (n *Node) WaitingBytes() int64 { return n.driver.Budget.Used() }

// FillRunners has the node's runners hold as many bytes of arguments as they may, or
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

// SetClientPatience sets how long the node keeps what it knows of an absent client.
func (n *Node) SetClientPatience(d time.Duration) { n.driver.Sessions.SetClientPatience(d) }

// KnowsPeer reports whether the node has a session with the process.
func (n *Node) KnowsPeer(a transport.Address) bool { return n.driver.Sessions.Known(a, 0) != nil }

// KnowsTable reports whether the connection knows where shards are.
func (c *Conn) KnowsTable() bool { return c.driver.ShardTable.Load() != nil }

// Begun reports whether the connection has exchanged something with the entity's home, and all it sent is acknowledged.
func (c *Conn) Begun(kind, id string) bool {
	t := (*c.driver.Kinds.Load())[kind].Route(c.ShardOf(kind, id).Shard).Target()
	if t == nil || t.Session == nil {
		return false
	}
	t.Session.(*peers.Session).Lock()
	defer t.Session.(*peers.Session).Unlock()
	return t.Session.(*peers.Session).Core.Acked() > 0 && t.Session.(*peers.Session).Core.Acked() == t.Session.(*peers.Session).Core.Next()-1
}

// Appended is how much the connection has appended for the entity's home.
func (c *Conn) Appended(kind, id string) uint64 {
	t := (*c.driver.Kinds.Load())[kind].Route(c.ShardOf(kind, id).Shard).Target()
	if t == nil || t.Session == nil {
		return 0
	}
	t.Session.(*peers.Session).Lock()
	defer t.Session.(*peers.Session).Unlock()
	return t.Session.(*peers.Session).Core.Next() - 1
}

// Forge has the calls of ctx say about themselves what only members may say.
func Forge(ctx context.Context, info wire.Info) context.Context { return node.WithOutgoing(ctx, info) }

// Inject sends an envelope to a node of the entity's shard, whatever the connection itself would
// send, behind what it has sent for the shard. An empty Entity that is not nil stays empty.
func (c *Conn) Inject(to transport.Peer, kind, id string, e wire.Envelope) {
	at := c.ShardOf(kind, id)
	e.Kind, e.Shard = []byte(kind), at.Shard
	if e.Entity == nil {
		e.Entity = []byte(id)
	}
	c.driver.Sessions.Session(to, c.driver.LaneOf(at.Shard)).Post(&e)
}

// SetDirectBackOff sets the time to the next try after a direct lane failed, for all processes.
func SetDirectBackOff(d time.Duration) { node.DirectBackOff = d }

// DirectAddr is the address at which the node listens for direct lanes.
func (n *Node) DirectAddr() string { return n.driver.Direct.Load().Addr().String() }

// DirectLanes is the number of direct lanes of the node.
func (n *Node) DirectLanes() int { return n.driver.Direct.Load().Open() }

// DirectLane is the direct lane to a process on a lane; nil if there is none.
func (c *Conn) DirectLane(to transport.Peer, lane int) peers.DirectLane {
	return c.driver.Sessions.Session(to, lane).DirectLane()
}

// FindOnlyBy has the node keep one of the indexes of a type, which appends its keys, or none if by is
// empty: it then is a node with another program. It is called before the node starts.
func (n *Node) FindOnlyBy(kind, by string, keys func(b []byte, entity any) []byte) {
	h := &(*n.driver.Kinds.Load())[kind].Host.Desc
	h.Indexes = slices.DeleteFunc(slices.Clone(h.Indexes), func(x codegen.Index) bool { return x.Kind != by })
	h.AppendIndexes = keys
}

// MeasureLoad ends an interval of the node's load.
func (n *Node) MeasureLoad() measure.Process {
	return n.driver.Load.Measure(n.driver.Lease.Now(), n.hosted()).Process
}

// ShardNumber is the number of an entity's shard.
func (n *Node) ShardNumber(kind, id string) uint32 { return n.shardOf(kind, id).ID.Shard }

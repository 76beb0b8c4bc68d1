package shard

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/turnlease"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// ForgetCommands has the shards of durable types forget the commands of callers that were
// silent for d. It is called before types are hosted.
func (n *Node) ForgetCommands(d time.Duration) { n.driver.limits.Silent = d }

// KeepCommands has each shard of a durable type keep few ids of commands, and few keys. It is called before
// types are hosted.
func (n *Node) KeepCommands(ids, keys int) {
	n.driver.limits.Commands, n.driver.limits.Keys = ids, keys
}

// GiveTellsUp has tells of durable entities become dead letters after d. It is called before types
// are hosted.
func (n *Node) GiveTellsUp(d time.Duration) { n.driver.limits.DeadAfter = d }

// Expire has entities of a durable type expire after ttl. It is called before the node starts.
func (n *Node) Expire(kind string, ttl time.Duration) {
	(*n.driver.kinds.Load())[kind].host.desc.TTL = ttl
}

// WriteStates has the node read and write states of a durable type in another version. It is
// called before the node starts.
func (n *Node) WriteStates(kind string, version int) {
	(*n.driver.kinds.Load())[kind].host.desc.StateVersion = version
}

// UncheckTurns has the node not hold turns to the promises of their types, as in a program. It is called before
// types are hosted.
func (n *Node) UncheckTurns() { n.driver.checksTurns = false }

// Peer is the node as transports name it.
func (n *Node) Peer() transport.Peer { return n.driver.self }

// shardOf is the shard of an entity at this node.
func (n *Node) shardOf(kind, id string) *hostedShard {
	shard, err := (*n.driver.kinds.Load())[kind].shardOf(id)
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
		if inbound(c).encoded.Load() == nil {
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
	turnsUnderWay(n.hosted()).UnderWay(func(_ any, t operator.Turn) {
		all = append(all, t.Method+" of "+t.Kind+"/"+t.ID+" from "+t.From)
	})
	return all
}

// Started reports whether the node has joined as far as knowing of itself.
func (n *Node) Started() bool { return n.control.member.View() != nil }

// HealthAt is the node's health as it will be if nothing changes until then.
func (n *Node) HealthAt(now time.Time) Health { return nodeHealth(n, now) }

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
	h := (*n.driver.kinds.Load())[kind].host
	n.driver.clock.Add(uint32(h.settings.idle/clockTick) + 2)
	p := newPassivator(h)
	for range rarestLook {
		p.passivateIdle()
	}
}

// Passivated returns the number of entities that were passivated. It allocates nothing.
func (n *Node) Passivated() uint64 { return n.driver.counters[entityPassivated].Load() }

// MakeRoom makes room where more entities of a kind are active than may be.
func (n *Node) MakeRoom(kind string) {
	h := (*n.driver.kinds.Load())[kind].host
	h.countActive()
	newPassivator(h).makeRoom()
}

// LoseLease ends the node's right to run turns, as when others may have its shards.
func (n *Node) LoseLease() { n.driver.lease.End(turnlease.Over) }

// Peer is the connection as transports name it.
func (c *Conn) Peer() transport.Peer { return c.driver.self }

// ShardOf is the entity's shard.
func (c *Conn) ShardOf(kind, id string) placement.ShardID {
	shard, err := (*c.driver.kinds.Load())[kind].shardOf(id)
	if err != nil {
		panic(err)
	}
	return placement.ShardID{Kind: kind, Shard: shard}
}

// WaitingBytes is how much the calls that wait at the node hold.
func (n *Node) WaitingBytes() int64 { return n.driver.budget.Used() }

// FillRunners has the node's runners hold as many bytes of arguments as they may, or
// none.
func (n *Node) FillRunners(full bool) {
	most := 0
	if !full {
		most = n.driver.cfg.runnerBytes(len(n.driver.runs))
	}
	for i := range n.driver.runs {
		n.driver.runs[i].SetMost(most)
	}
}

// SetClientPatience sets how long the node keeps what it knows of an absent client.
func (n *Node) SetClientPatience(d time.Duration) { n.driver.peers.SetClientPatience(d) }

// KnowsPeer reports whether the node has a session with the process.
func (n *Node) KnowsPeer(a transport.Address) bool { return n.driver.peers.Known(a, 0) != nil }

// KnowsTable reports whether the connection knows where shards are.
func (c *Conn) KnowsTable() bool { return c.driver.table.Load() != nil }

// Begun reports whether the connection has exchanged something with the entity's home, and all it sent is acknowledged.
func (c *Conn) Begun(kind, id string) bool {
	t := (*c.driver.kinds.Load())[kind].route(c.ShardOf(kind, id).Shard).Target()
	if t == nil || t.Session == nil {
		return false
	}
	t.Session.(*peers.Session).Lock()
	defer t.Session.(*peers.Session).Unlock()
	return t.Session.(*peers.Session).Core.Acked() > 0 && t.Session.(*peers.Session).Core.Acked() == t.Session.(*peers.Session).Core.Next()-1
}

// Appended is how much the connection has appended for the entity's home.
func (c *Conn) Appended(kind, id string) uint64 {
	t := (*c.driver.kinds.Load())[kind].route(c.ShardOf(kind, id).Shard).Target()
	if t == nil || t.Session == nil {
		return 0
	}
	t.Session.(*peers.Session).Lock()
	defer t.Session.(*peers.Session).Unlock()
	return t.Session.(*peers.Session).Core.Next() - 1
}

// Forge has the calls of ctx say about themselves what only members may say.
func Forge(ctx context.Context, info wire.Info) context.Context { return withOutgoing(ctx, info) }

// Inject sends an envelope to a node of the entity's shard, whatever the connection itself would
// send, behind what it has sent for the shard.
func (c *Conn) Inject(to transport.Peer, kind, id string, e wire.Envelope) {
	at := c.ShardOf(kind, id)
	e.Kind, e.Shard, e.Entity = []byte(kind), at.Shard, []byte(id)
	c.driver.peers.Session(to, c.driver.laneOf(at.Shard)).Post(&e)
}

// SetDirectBackOff sets the time to the next try after a direct lane failed, for all processes.
func SetDirectBackOff(d time.Duration) { directBackOff = d }

// DirectAddr is the address at which the node listens for direct lanes.
func (n *Node) DirectAddr() string { return n.driver.direct.Load().Addr().String() }

// DirectLanes is the number of direct lanes of the node.
func (n *Node) DirectLanes() int { return n.driver.direct.Load().Open() }

// DirectLane is the direct lane to a process on a lane; nil if there is none.
func (c *Conn) DirectLane(to transport.Peer, lane int) peers.DirectLane {
	return c.driver.peers.Session(to, lane).DirectLane()
}

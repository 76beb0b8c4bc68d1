package shardtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/transport/memory"
)

type storm struct {
	cluster *Cluster
	begin   time.Time
	names   []string // of the nodes
	running sync.WaitGroup
	mu      sync.Mutex
	away    map[string]bool // nodes that the others cannot reach, or that are starting
	err     error           // the first error
}

func (s *storm) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && err != nil {
		s.err = fmt.Errorf("in a storm: %w", err)
	}
}

// take reserves a node. It reports false if the node is taken or, with limited, if no further node
// may be away.
func (s *storm) take(name string, limited bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away[name] || limited && len(s.away) >= max(1, (len(s.names)-1)/2) {
		return false
	}
	s.away[name] = true
	return true
}

func (s *storm) giveBack(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.away, name)
}

// revive restarts nodes that members have removed.
func (s *storm) revive(ctx context.Context) {
	for _, name := range s.names {
		if !s.cluster.process(name).running() && s.take(name, false) {
			s.running.Go(func() {
				s.note(s.again(ctx, name))
				s.giveBack(name)
			})
		}
	}
}

func (s *storm) run(ctx context.Context, at step) error {
	c, all := s.cluster, memory.Path{From: memory.Any, To: memory.Any}
	switch at.fault {
	case Kills:
		c.Kill(at.node)
		time.Sleep(at.lasts)
		return s.again(ctx, at.node)
	case Departures:
		_ = c.process(at.node).node.Shutdown(ctx) // other nodes may remove the node at the same time
		time.Sleep(at.lasts)
		return s.again(ctx, at.node)
	case Pauses:
		c.Pause(at.node, at.lasts)
		time.Sleep(at.lasts)
	case Cuts:
		c.Cut(at.node, at.other)
		time.Sleep(at.lasts)
		c.broker.Mend(memory.Path{From: at.node, To: at.other})
		c.broker.Mend(memory.Path{From: at.other, To: at.node})
	case Isolations:
		c.Isolate(at.node)
		time.Sleep(at.lasts)
		c.join(at.node)
	case Losses:
		c.broker.Lose(all, float64(at.number)/1_000_000)
		time.Sleep(at.lasts)
		c.broker.Lose(all, 0)
	case Moves:
		s.move(ctx, at)
	case BrokerOutages:
		c.broker.Stop()
		time.Sleep(at.lasts)
		c.broker.Start()
	case StoreOutages:
		c.store.Stop()
		time.Sleep(at.lasts)
		c.store.Start(0)
	}
	return nil
}

// retry is the pause between starts of a node, and bounds requests to move a shard.
const retry = 2 * time.Second

// again starts a node, repeatedly if the storm's faults prevent it.
func (s *storm) again(ctx context.Context, name string) error {
	for {
		err := s.cluster.start(ctx, name)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(retry)
	}
}

// move requests another home for a shard. The storm may end before the confirmation.
func (s *storm) move(ctx context.Context, at step) {
	node := s.cluster.process(at.node)
	if !node.running() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, retry)
	defer cancel()
	stats, _ := node.node.Shards(ctx, "") // without members that do not answer
	n := uint64(0)
	for _, shards := range stats.Nodes {
		n += uint64(len(shards))
	}
	if n == 0 {
		return
	}
	i := at.number % n
	for _, name := range s.cluster.Running() {
		shards := stats.Nodes[name]
		if i < uint64(len(shards)) {
			_ = node.node.PinShards(ctx, shards[i].Kind, map[uint32]string{shards[i].Shard: at.node})
			return
		}
		i -= uint64(len(shards))
	}
}

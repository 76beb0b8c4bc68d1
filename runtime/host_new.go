package shard

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
)

// newHost makes the host of a type, with its shards.
func newHost(drv *driver, k *kind, desc codegen.Host, settings settings) (*host, error) {
	h := &host{
		driver: drv, kind: k, desc: desc, settings: settings,
		second: newSignal(), excess: newSignal(),
	}
	h.tally.refusals, h.tally.meters, h.tally.kind = &drv.refusals, &drv.meters, desc.Name
	if desc.New == nil || desc.Dispatch == nil {
		return nil, fmt.Errorf("host %s: incomplete description (run go generate again?)", desc.Name)
	}
	if settings.inline && len(settings.intercept) == 0 {
		h.nearReads = desc.Reads
	}
	limits := region.Limits{
		Mailbox: settings.mailbox, Waiting: drv.cfg.BufferSize, Handoff: settings.handoff,
		MailboxBytes: settings.bytes, ShardBytes: drv.cfg.ShardBytes, Budget: drv.budget,
	}
	if desc.Singleton {
		limits.Lead = codegen.SingletonID
	}
	if settings.remembering != nil {
		r := *settings.remembering
		r.Store, r.Shards, r.HashName, r.Locate = drv.cfg.Store, k.shards, k.desc.HashName, k.locate
		h.remembered = drv.memory.Type(desc.Name, r)
	}
	cfg := &shardhost.Config{
		Kind: k.name, Self: drv.self.Address, CallTimeout: drv.cfg.CallTimeout, HandoffTimeout: drv.cfg.HandoffTimeout,
		Drops: settings.handoff.DropState, Settles: !desc.Singleton,
		Clock: &drv.clock, Watch: &h.tally,
	}
	h.methods = make(map[string]*hostedMethod, len(desc.Dispatch))
	for name, run := range desc.Dispatch {
		unnamed := desc.NoContext[name] && len(settings.intercept) == 0
		h.methods[name] = &hostedMethod{run: run, unseen: unnamed && !desc.Durable, hidden: unnamed && desc.Durable, read: desc.Reads[name]}
	}
	h.shards = make([]hostedShard, k.shards)
	for i := range h.shards {
		id := placement.ShardID{Kind: desc.Name, Shard: k.shards + uint32(i)}
		initShard(&h.shards[i], h, id, cfg, limits)
		if desc.Durable {
			h.shards[i].durable = newDurableShard(&h.shards[i])
		}
	}
	if desc.Singleton {
		h.instance = singlehost.NewInstance(&h.shards[0].Shard, (*singletonHome)(&h.shards[0]))
		cfg.Keeps = h.instance.KeepLocked
	}
	return h, nil
}

// initShard makes s a shard of h, joined to this process.
func initShard(s *hostedShard, h *host, id placement.ShardID, cfg *shardhost.Config, l region.Limits) {
	s.host, s.lane = h, h.driver.laneOf(id.Shard)
	s.Init(id, (*shardEnv)(s), cfg, l)
	s.Core.Driver = s
	if h.remembered != nil {
		s.remembered = h.remembered.Shard(&s.Shard, (*rememberedHome)(s))
	}
}

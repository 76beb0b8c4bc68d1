package node

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
)

// NewHost makes the host of a type, with its shards.
func NewHost(drv *Driver, k *Kind, desc codegen.Host, settings Settings) (*Host, error) {
	h := &Host{
		driver: drv, Kind: k, Desc: desc, Settings: settings,
		Second: newSignal(), excess: newSignal(),
	}
	h.tally.refusals, h.tally.meters, h.tally.kind = &drv.Refusals, &drv.Meters, desc.Name
	if desc.New == nil || desc.Dispatch == nil {
		return nil, fmt.Errorf("host %s: incomplete description (run go generate again?)", desc.Name)
	}
	if settings.Inline && len(settings.Intercept) == 0 {
		h.nearReads = desc.Reads
	}
	limits := region.Limits{
		Mailbox: settings.MailboxCalls, Waiting: drv.Config.BufferSize, Handoff: settings.Handoff,
		MailboxBytes: settings.MailboxBytes, ShardBytes: drv.Config.ShardBytes, Budget: drv.Budget,
	}
	if desc.Singleton {
		limits.Lead = codegen.SingletonID
	}
	if settings.Remembering != nil {
		r := *settings.Remembering
		r.Store, r.Shards, r.HashName, r.Locate = drv.Config.Store, k.Shards, k.Desc.HashName, k.locate
		h.Remembered = drv.Memory.Type(desc.Name, r)
	}
	cfg := &shardhost.Config{
		Kind: k.name, Self: drv.Local.Address, CallTimeout: drv.Config.CallTimeout, HandoffTimeout: drv.Config.HandoffTimeout,
		Drops: settings.Handoff.DropState, Settles: !desc.Singleton,
		Clock: &drv.Clock, Watch: &h.tally,
	}
	h.methods = make(map[string]*hostedMethod, len(desc.Dispatch))
	for name, run := range desc.Dispatch {
		unnamed := desc.NoContext[name] && len(settings.Intercept) == 0
		h.methods[name] = &hostedMethod{run: run, unseen: unnamed && !desc.Durable, hidden: unnamed && desc.Durable, read: desc.Reads[name]}
	}
	h.Shards = make([]HostedShard, k.Shards)
	for i := range h.Shards {
		id := placement.ShardID{Kind: desc.Name, Shard: k.Shards + uint32(i)}
		initShard(&h.Shards[i], h, id, cfg, limits)
		if desc.Durable {
			h.Shards[i].Durable = newDurableShard(&h.Shards[i])
		}
	}
	if desc.Singleton {
		h.Instance = singlehost.NewInstance(&h.Shards[0].Shard, (*singletonHome)(&h.Shards[0]))
		cfg.Keeps = h.Instance.KeepLocked
	}
	return h, nil
}

// initShard makes s a shard of h, joined to this process.
func initShard(s *HostedShard, h *Host, id placement.ShardID, cfg *shardhost.Config, l region.Limits) {
	s.Host, s.lane = h, h.driver.LaneOf(id.Shard)
	s.Init(id, (*shardEnv)(s), cfg, l)
	s.Core.Driver = s
	if h.Remembered != nil {
		s.remembered = h.Remembered.Shard(&s.Shard, (*rememberedHome)(s))
	}
}

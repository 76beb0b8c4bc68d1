package shard

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/remembering"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// host is one entity type that lives at this node.
type host struct {
	plane      *plane
	kind       *kind
	desc       codegen.Host
	settings   hostSettings
	shards     []hostedShard
	instance   *singlehost.Instance // of a singleton; else nil
	remembered *remembering.Type    // of a type whose entities are remembered; else nil

	passivator *passivator
	unreadable unreadable

	stopped atomic.Bool  // StopHosting: the type's shards go elsewhere
	active  atomic.Int64 // entities with a value, about
	resting atomic.Int64 // entities that the passivator has resting and whose hooks run
}

func newHost(pl *plane, k *kind, desc codegen.Host, settings hostSettings) (*host, error) {
	h := &host{plane: pl, kind: k, desc: desc, settings: settings}
	if desc.New == nil || desc.Dispatch == nil {
		return nil, fmt.Errorf("host %s: incomplete description (run go generate again?)", desc.Name)
	}
	limits := region.Limits{
		Mailbox: settings.mailbox, Waiting: pl.cfg.BufferSize, Handoff: settings.handoff,
		MailboxBytes: settings.bytes, ShardBytes: pl.cfg.ShardBytes, Budget: pl.budget,
	}
	h.passivator = newPassivator(h)
	if desc.Singleton {
		limits.Lead = codegen.SingletonID
	}
	if settings.remember != nil {
		h.remembered = pl.memory.Type(desc.Name, settings.remember.settings())
	}
	cfg := &shardhost.Config{
		Kind: k.name, Self: pl.self.Address, CallTimeout: pl.cfg.CallTimeout, HandoffTimeout: pl.cfg.HandoffTimeout,
		Drops: settings.handoff.DropState, Settles: !desc.Singleton,
	}
	h.shards = make([]hostedShard, k.shards)
	for i := range h.shards {
		id := placement.ShardID{Kind: desc.Name, Shard: k.shards + uint32(i)}
		h.shards[i].init(h, id, cfg, limits)
		if desc.Durable {
			h.shards[i].durable = newDurableShard(&h.shards[i])
		}
	}
	if desc.Singleton {
		h.instance = singlehost.NewInstance(&h.shards[0].Shard, (*singletonHome)(&h.shards[0]))
	}
	return h, nil
}

// shard is the shard with that number, or nil if the kind has no such shard.
func (h *host) shard(n uint32) *hostedShard {
	if n < h.kind.shards || n-h.kind.shards >= uint32(len(h.shards)) {
		return nil
	}
	return &h.shards[n-h.kind.shards]
}

// eachShard calls f for the shards on one lane or, with -1, on all.
func (h *host) eachShard(lane int, f func(*hostedShard)) {
	for i := range h.shards {
		if s := &h.shards[i]; lane < 0 || s.lane == lane {
			f(s)
		}
	}
}

// checkKind returns why a kind's description cannot be used.
func checkKind(k *codegen.Kind) error {
	if k.Shards == 0 {
		k.Shards = placement.DefaultShards
		if k.Durable {
			k.Shards = durableShards
		}
	}
	var errs []error
	if err := transport.CheckName("type", k.Name); err != nil {
		errs = append(errs, err)
	}
	if k.Singleton && k.Shards != 1 {
		errs = append(errs, fmt.Errorf("type %s: a singleton of %d shards (run go generate again?)", k.Name, k.Shards))
	} else if err := placement.CheckShards(k.Shards); err != nil {
		errs = append(errs, fmt.Errorf("type %s: %w", k.Name, err))
	}
	return errors.Join(errs...)
}

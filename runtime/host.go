package shard

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
	"github.com/shardgen/shardgen/transport"
)

// hostSettings are what operators tune of one hosted type.
type hostSettings struct {
	idle   time.Duration
	inline bool
}

// A HostOption tunes one hosted type at one node.
type HostOption func(*hostSettings)

// IdleAfter passivates entities that nobody called for d: their state is kept
// encoded and the value is dropped. Default 2 minutes, minimum 1s; 0 never does.
func IdleAfter(d time.Duration) HostOption { return func(s *hostSettings) { s.idle = d } }

// Inline says whether a local call may run on its caller's goroutine. Default
// true: it is fast, and the call returns when its method returns, even past its
// deadline. With false the caller gets its deadline back, at the cost of a hop.
func Inline(on bool) HostOption { return func(s *hostSettings) { s.inline = on } }

// host is one entity type that lives at this node.
type host struct {
	plane    *plane
	kind     *kind
	desc     codegen.Host
	settings hostSettings
	shards   []hostedShard
}

func newHost(pl *plane, k *kind, desc codegen.Host, opts []HostOption) (*host, error) {
	h := &host{plane: pl, kind: k, desc: desc, settings: hostSettings{idle: 2 * time.Minute, inline: true}}
	for _, o := range opts {
		o(&h.settings)
	}
	if d := h.settings.idle; d != 0 && d < time.Second {
		return nil, fmt.Errorf("host %s: IdleAfter(%v): want 0 or at least 1s", desc.Name, d)
	}
	if desc.New == nil || desc.Dispatch == nil {
		return nil, fmt.Errorf("host %s: incomplete description (run go generate again?)", desc.Name)
	}
	limits := region.Limits{Mailbox: pl.cfg.MailboxSize, Waiting: pl.cfg.BufferSize}
	h.shards = make([]hostedShard, k.shards)
	for i := range h.shards {
		id := placement.ShardID{Kind: desc.Name, Shard: k.shards + uint32(i)}
		h.shards[i].init(h, id, limits)
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
	}
	var errs []error
	if k.ABI != codegen.ABI {
		errs = append(errs, fmt.Errorf("type %s: generated for ABI %d, this module has %d (run go generate with its shardgen)", k.Name, k.ABI, codegen.ABI))
	}
	if err := transport.CheckName("type", k.Name); err != nil {
		errs = append(errs, err)
	}
	if err := placement.CheckShards(k.Shards); err != nil {
		errs = append(errs, fmt.Errorf("type %s: %w", k.Name, err))
	}
	return errors.Join(errs...)
}

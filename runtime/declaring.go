package shard

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/control"
	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/internal/hostmeta"
	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
)

// controlSetup is the configuration of a node's control plane, made when all types have
// been declared.
func controlSetup(n *Node) control.Setup {
	return control.Setup{
		Members: func(seeds []string) (control.Machine, error) {
			meta, compat := declarations(n)
			return membership.New(n.cfg.membershipConfig(n.driver.self.Address, seeds, meta, compat))
		},
		Coordinator: coordinator.Config{
			MinMembers: n.cfg.MinMembers, MaxMoves: n.cfg.MaxMoves,
			Strategy:          placement.LeastShards{Threshold: n.cfg.RebalanceThreshold},
			RebalanceInterval: n.cfg.RebalanceInterval,
			Strategies:        n.strategies(),
		},
		Coordinated: decisions(&n.lines),
		Hosts:       len(n.hosted()) > 0,
		Singletons:  func(p singlehost.Process) (*singlehost.Set, error) { return hostSingletons(n, p) },
		Callable:    n.driver.singleton,
	}
}

// hostSingletons starts hosting singletons.
func hostSingletons(n *Node, p singlehost.Process) (*singlehost.Set, error) {
	set := singlehost.NewSet(p, n.cfg.Cluster, n.driver.self)
	for _, h := range n.hosted() {
		if !h.desc.Singleton {
			continue
		}
		o := h.settings.single
		var leases singlehost.Leases // nil: none is asked for
		if o.Lease {
			leases = leaseRequests{store: n.cfg.Store, driver: n.driver, post: p.Post}
		}
		err := set.Host(singlehost.Hosting{
			Kind: h.desc.Name, Instance: h.instance, Lease: leases, LeaseTTL: o.LeaseTTL,
			Manager: singleton.Config{
				RetryInterval: o.HandoffRetry, MaxRetries: o.MaxHandoffRetries, RemovalMargin: o.RemovalMargin,
				RestartBackoff: o.RestartBackoff, MaxRestartBackoff: o.MaxRestartBackoff, StableAfter: o.StableAfter,
				LeaseRetryInterval: o.LeaseRetry,
			},
		})
		if err != nil {
			return nil, err
		}
	}
	return set, nil
}

// declarations returns the node's announcement for other members, and the settings that must be
// equal at all members.
func declarations(n *Node) (meta, compat []membership.KeyValue) {
	add := func(list *[]membership.KeyValue, key, format string, args ...any) {
		*list = append(*list, membership.KeyValue{Key: key, Value: fmt.Sprintf(format, args...)})
	}
	add(&compat, "lanes", "%d", n.cfg.Lanes)
	add(&compat, "frame format", "%d", wire.FrameVersion)
	add(&compat, "control format", "%d", wire.ControlFormat)
	add(&compat, "Config.Store", "%s", map[bool]string{true: "set", false: "nil"}[n.cfg.Store != nil])
	compat = append(compat, n.cfg.Membership.compat()...)
	for _, declared := range n.declared() {
		k := declared.desc
		switch {
		case declared.host == nil: // a proxy
		case k.Singleton:
			add(&meta, hostmeta.SingletonKey(k.Name), "%d %s %s role=%s handoff=%s", declared.shards, k.HashName, k.Package,
				declared.declared.role, declared.declared.handoff)
		default:
			add(&meta, hostmeta.EntityKey(k.Name), "%d %s %s role=%s handoff=%s", declared.shards, k.HashName, k.Package,
				declared.declared.role, declared.declared.handoff)
		}
		add(&compat, "type "+k.Name+" shards", "%d", declared.shards)
		add(&compat, "type "+k.Name+" shard function", "%s", k.HashName)
		add(&compat, "type "+k.Name+" package", "%s", k.Package)
		add(&compat, "type "+k.Name+" role", "%s", declared.declared.role)
		add(&compat, "type "+k.Name+" handoff", "%v", declared.declared.handoff)
		add(&compat, "type "+k.Name+" is a singleton", "%t", k.Singleton)
		add(&compat, "type "+k.Name+" is durable", "%t", k.Durable)
		add(&compat, "type "+k.Name+" is remembered", "%t", declared.declared.remember != nil)
		if k.Singleton {
			add(&compat, "type "+k.Name+" has a lease", "%t", declared.declared.single.Lease)
		}
	}
	return meta, compat
}

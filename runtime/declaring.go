package shard

import (
	"github.com/shardgen/shardgen/internal/core/membership/table"
	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
)

// controlSetup configures the control plane, after all types have been declared.
func controlSetup(n *Node) control.Setup {
	return control.Setup{
		Members: func(seeds []string) (control.Machine, error) {
			meta, compat := declarations(n)
			cfg := n.cfg.membershipConfig(n.driver.Local.Address, seeds, meta, compat)
			if cfg.Table.Enabled {
				return table.New(cfg)
			}
			return membership.New(cfg)
		},
		Coordinator: coordinator.Config{
			MinMembers: n.cfg.Membership.MinMembers, MaxMoves: n.cfg.Rebalance.MaxMoves,
			Strategy:          placement.LeastShards{Threshold: n.cfg.Rebalance.Threshold},
			RebalanceInterval: n.cfg.Rebalance.Interval,
			Strategies:        n.strategies(),
		},
		Coordinated: decisions(&n.lines),
		Hosts:       len(n.hosted()) > 0,
		Singletons:  func(p singlehost.Process) (*singlehost.Set, error) { return hostSingletons(n, p) },
		Callable:    n.driver.Singleton,
	}
}

func hostSingletons(n *Node, p singlehost.Process) (*singlehost.Set, error) {
	set := singlehost.NewSet(p, n.cfg.Cluster, n.driver.Local)
	for _, h := range n.hosted() {
		if !h.Desc.Singleton {
			continue
		}
		err := set.Host(singlehost.Hosting{
			Type: h.Desc.Name, Instance: h.Instance, Options: n.options[h.Desc.Name].single,
			Leases: node.LeaseRequests{Store: n.cfg.Store, Driver: n.driver, Post: p.Post},
		})
		if err != nil {
			return nil, err
		}
	}
	return set, nil
}

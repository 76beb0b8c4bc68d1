package shard

import (
	"maps"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// singletonHosts are the members that may run each singleton, the oldest first.
func singletonHosts(v *membership.View) map[string][]transport.Address {
	hosts := map[string][]transport.Address{}
	for _, m := range v.ByAge {
		for _, kv := range m.Meta {
			if kind, ok := strings.CutPrefix(kv.Key, metaSingleton); ok && m.Status != membership.Down {
				hosts[kind] = append(hosts[kind], m.Address)
			}
		}
	}
	return hosts
}

// at is where the singleton runs as far as this node knows; zero: it does not.
func (s *single) at() transport.Address {
	if s.instance != nil {
		if _, here := s.instance.at(); here {
			return s.control.self
		}
	}
	if s.proxy.Why() != "" {
		return transport.Address{}
	}
	return s.proxy.Found().Node
}

// seek looks for the singletons of the cluster whose place is not known here. It
// reports whether there are any.
func (g *singles) seek() (seeks bool) {
	v := g.control.view.Load()
	if v == nil {
		return false
	}
	for kind := range singletonHosts(v) {
		s := g.get(kind)
		if s == nil { // nobody here ever called it
			s = g.learn(kind)
		}
		if s != nil && s.at().IsZero() {
			s.search(singleton.Want{})
			seeks = true
		}
	}
	return seeks
}

// rows are all singletons of the cluster, for operators.
func (g *singles) rows(v *membership.View) (rows []operator.Singleton) {
	hosts := singletonHosts(v)
	for _, kind := range slices.Sorted(maps.Keys(hosts)) {
		row := operator.Singleton{Kind: kind, Hosts: hosts[kind], Why: "nobody has asked for it at " + g.control.self.Name}
		if s := g.get(kind); s != nil {
			if row.Node, row.Why = s.at(), ""; row.Node.IsZero() {
				row.Why = s.proxy.Why()
			}
		}
		rows = append(rows, row)
	}
	return rows
}

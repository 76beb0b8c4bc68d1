package shard

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
)

// A setting is one option of a cluster or a type. Unless value is nil, members must agree: joining
// nodes' values are checked.
type setting[T any] struct {
	name  string
	value func(T) string
}

// clusterSettings are the fields of [Config] and the versions of formats. The admitting member
// compares a joining node's values with its own.
var clusterSettings = []setting[*Node]{
	{"frame format", func(*Node) string { return strconv.Itoa(wire.FrameVersion) }},
	{"control format", func(*Node) string { return strconv.Itoa(wire.ControlFormat) }},

	{"Config.Lanes", func(n *Node) string { return strconv.Itoa(n.cfg.Lanes) }},
	{"Config.Store", func(n *Node) string {
		return cmp.Or(n.store, map[bool]string{true: "set", false: "nil"}[n.cfg.Store != nil])
	}},
	// A member that gives away another's shards must know when that other has certainly stopped.
	{"Config.Membership.SelfHeartbeatTimeout", func(n *Node) string { return n.cfg.Membership.SelfHeartbeatTimeout.String() }},
	{"Config.Membership.QuorumTimeout", func(n *Node) string { return n.cfg.Membership.QuorumTimeout.String() }},
	{"Config.Membership.GoneAfter", func(n *Node) string { return n.cfg.Membership.GoneAfter.String() }},
	{"Config.Membership.CutAfter", func(n *Node) string { return n.cfg.Membership.CutAfter.String() }},
	{"Config.Membership.SilentAfter", func(n *Node) string { return n.cfg.Membership.SilentAfter.String() }},
	{"Config.Membership.AgreedAfter", func(n *Node) string { return n.cfg.Membership.AgreedAfter.String() }},
	{"Config.Membership.MonitoredBy", func(n *Node) string { return strconv.Itoa(cmp.Or(n.cfg.Membership.MonitoredBy, 5)) }},
	{"Config.Membership.Detection", func(n *Node) string { return n.cfg.Membership.Detection.String() }},
	{"Config.Membership.Downing.Strategy", func(n *Node) string { return n.cfg.Membership.Downing.Strategy.String() }},
	{"Config.Membership.Downing.Role", func(n *Node) string { return n.cfg.Membership.Downing.Role }},
	{"Config.Membership.Downing.StableAfter", func(n *Node) string { return n.cfg.Membership.Downing.StableAfter.String() }},
	{"Config.Membership.Downing.AutoDownAfter", func(n *Node) string { return n.cfg.Membership.Downing.AutoDownAfter.String() }},
	{"Config.Membership.Downing.AutoDownDespiteSharding", func(n *Node) string { return strconv.FormatBool(n.cfg.Membership.Downing.AutoDownDespiteSharding) }},
	{"Config.Membership.Downing.QuorumSize", func(n *Node) string { return strconv.Itoa(n.cfg.Membership.Downing.QuorumSize) }},
	{"Config.Membership.Downing.KeepOldestAlone", func(n *Node) string { return strconv.FormatBool(n.cfg.Membership.Downing.KeepOldestAlone) }},
	{"Config.Membership.Downing.MinorityDelay", func(n *Node) string { return n.cfg.Membership.Downing.MinorityDelay.String() }},

	{name: "Config.Cluster"}, // another name means another cluster
	{name: "Config.Transport"},
	{name: "Config.Name"},
	{name: "Config.Roles"},
	{name: "Config.Zone"},
	{name: "Config.Capacity"},
	{name: "Config.Seeds"},
	{name: "Config.Membership.JoinByCommand"},
	{name: "Config.Membership.MinMembers"}, // the leader's value counts
	{name: "Config.Membership.MinRoleMembers"},
	{name: "Config.Membership.WeaklyUpAfter"},
	{name: "Config.Membership.SeedTimeout"},
	{name: "Config.Membership.GossipInterval"},
	{name: "Config.Membership.GossipSpeedup"},
	{name: "Config.Membership.GossipToUnseen"},
	{name: "Config.Membership.GossipManyMembers"},
	{name: "Config.Membership.GossipMaxWait"},
	{name: "Config.Membership.HeartbeatInterval"},
	{name: "Config.Membership.PhiThreshold"},
	{name: "Config.Membership.PauseAllowance"},
	{name: "Config.Membership.QuarantineAfter"},
	// The membership's state machine compares the kind of membership, and the table settings that
	// must be equal.
	{name: "Config.Membership.Table.Store"},
	{name: "Config.Membership.Table.Successors"},
	{name: "Config.Membership.Table.ProbeInterval"},
	{name: "Config.Membership.Table.Missed"},
	{name: "Config.Membership.Table.Votes"},
	{name: "Config.Membership.Table.VoteWindow"},
	{name: "Config.Membership.Table.AliveInterval"},
	{name: "Config.Membership.Table.AliveLimit"},
	{name: "Config.Membership.Table.Outage"},
	{name: "Config.Membership.Table.Refresh"}, // these two may differ
	{name: "Config.Membership.Table.CleanAfter"},
	{name: "Config.CallTimeout"},
	{name: "Config.Membership.JoinTimeout"},
	{name: "Config.HandoffTimeout"},
	{name: "Config.Membership.LeaveDelay"},
	{name: "Config.Membership.LeaveTimeout"},
	{name: "Config.Limits.BufferSize"},
	{name: "Config.Limits.MailboxCalls"},
	{name: "Config.Limits.MailboxBytes"},
	{name: "Config.Limits.ShardBytes"},
	{name: "Config.Limits.BufferBytes"},
	{name: "Config.Limits.Window"},
	{name: "Config.Limits.MaxBuffered"},
	{name: "Config.Limits.AnswerBytes"},
	{name: "Config.Limits.SingletonBuffer"},
	{name: "Config.Rebalance.MaxMoves"}, // the values of the coordinator's member count
	{name: "Config.Rebalance.Threshold"},
	{name: "Config.Rebalance.Interval"},
	{name: "Config.Direct.Listen"}, // processes with and without direct lanes work together
	{name: "Config.Direct.Advertise"},
	{name: "Config.Direct.Dial"},
	{name: "Config.Gateway"},
	{name: "Config.Interceptors"},
	{name: "Config.Tracing"},
	{name: "Config.Logger"},
}

// directiveSettings are the options of a type's //shard directive. A joining node's values are
// compared with those that all members knowing the type announce.
var directiveSettings = []setting[declaredKind]{
	{hostmeta.Shards, func(k declaredKind) string { return strconv.Itoa(int(k.Shards)) }},
	{hostmeta.Hash, func(k declaredKind) string { return k.Desc.HashName }},
	{hostmeta.Package, func(k declaredKind) string { return k.Desc.Package }},
	{"singleton", func(k declaredKind) string { return strconv.FormatBool(k.Desc.Singleton) }},
	{"durable", func(k declaredKind) string { return strconv.FormatBool(k.Desc.Durable) }},

	{name: "name"}, // another name means another type
	{name: "ttl"},
	{name: "version"}, // states of earlier versions are migrated, those of later versions are refused
	{name: "keep"},
	{name: "snapshot"},
	{name: "client"},
	{name: "json"},
	{name: "tell"},
}

// optionSettings are the options of [HostOption], announced like directiveSettings, but not by
// nodes with [Proxy].
var optionSettings = []setting[declaredKind]{
	{"HostRole", func(k declaredKind) string { return k.options.role }},
	{"Handoff", func(k declaredKind) string { return k.options.Handoff.String() }},
	{"Remember", func(k declaredKind) string { return strconv.FormatBool(k.options.remember != nil) }},
	{"singleton.Options.Lease", func(k declaredKind) string { return strconv.FormatBool(k.options.single.Lease) }},

	{name: "IdleAfter"},
	{name: "StopTimeout"},
	{name: "MaxActive"},
	{name: "Inline"},
	{name: "Proxy"},
	{name: "Allocation"}, // of these five, the values of the last member to join count
	{name: "MaxMoves"},
	{name: "MinHosts"},
	{name: "PoolSize"},
	{name: "PerNode"},
	{name: "Survive"}, // the highest counts
	{name: "MaxMailboxCalls"},
	{name: "MaxMailboxBytes"},
	{name: "Intercept"},
	{name: "Supervise"},
	{name: "RestartBackoff"},
	{name: "RememberOptions.Replicas"},
	{name: "RememberOptions.ConstantRate"},
	{name: "RememberOptions.Entities"},
	{name: "RememberOptions.Every"},
	{name: "RememberOptions.Backoff"},
	{name: "RememberOptions.MaxPerShard"},
	{name: "singleton.Options.LeaseTTL"}, // the lease holder's value counts
	{name: "singleton.Options.LeaseRetry"},
	{name: "singleton.Options.HandoffRetry"},
	{name: "singleton.Options.MaxHandoffRetries"},
	{name: "singleton.Options.RemovalMargin"},
	{name: "singleton.Options.RestartBackoff"},
	{name: "singleton.Options.MaxRestartBackoff"},
	{name: "singleton.Options.StableAfter"},
}

// declarations returns what a node announces when it joins: its types in meta, and in compat the
// settings that must be equal everywhere.
func declarations(n *Node) (meta, compat []membership.KeyValue) {
	for _, s := range clusterSettings {
		if s.value != nil {
			compat = append(compat, membership.KeyValue{Key: s.name, Value: s.value(n)})
		}
	}
	for _, k := range n.declared() {
		key := hostmeta.EntityKey(k.Desc.Name)
		switch {
		case k.Host == nil:
			key = hostmeta.ProxyKey(k.Desc.Name)
		case k.Desc.Singleton:
			key = hostmeta.SingletonKey(k.Desc.Name)
		}
		meta = append(meta, membership.KeyValue{Key: key, Value: announcement(k)})
	}
	return meta, compat
}

// announcement returns the settings of k in which all members that know the type must agree.
func announcement(k declaredKind) string {
	var words []string
	add := func(settings []setting[declaredKind]) {
		for _, s := range settings {
			if s.value != nil {
				words = append(words, s.name+"="+s.value(k))
			}
		}
	}
	add(directiveSettings)
	if !k.options.proxy {
		add(optionSettings)
	}
	return strings.Join(words, " ")
}

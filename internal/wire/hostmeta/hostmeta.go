// Package hostmeta encodes the types known to a member, as metadata that membership spreads, and
// compares the announcements of two members.
package hostmeta

import (
	"slices"
	"strings"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// Prefixes of metadata keys, before a type's name.
const (
	entityPrefix    = "kind/"
	singletonPrefix = "singleton/"
	proxyPrefix     = "proxy/" // of types that the member knows but does not host
)

// EntityKey is the metadata key of a hosted entity type.
func EntityKey(kind string) string { return entityPrefix + kind }

// SingletonKey is the metadata key of a hosted singleton.
func SingletonKey(kind string) string { return singletonPrefix + kind }

// ProxyKey is the metadata key of a type that the member knows but does not host.
func ProxyKey(kind string) string { return proxyPrefix + kind }

// HostsAny reports whether the member hosts an entity type.
func HostsAny(m membership.Member) bool {
	return slices.ContainsFunc(m.Meta, func(kv membership.KeyValue) bool {
		return len(kv.Key) > len(entityPrefix) && strings.HasPrefix(kv.Key, entityPrefix)
	})
}

// Hosts reports whether the member hosts the entity type.
func Hosts(m membership.Member, kind string) bool { return has(m, EntityKey(kind)) }

// HostsSingleton reports whether the member hosts the singleton.
func HostsSingleton(m membership.Member, kind string) bool { return has(m, SingletonKey(kind)) }

// IsPool reports whether any member in the view announces the type as a pool.
func IsPool(v *membership.View, kind string) bool {
	return v != nil && slices.ContainsFunc(v.ByAge, func(m membership.MemberView) bool {
		return slices.ContainsFunc(m.Meta, func(kv membership.KeyValue) bool {
			hash, ok := Value(kv.Value, Hash)
			return ok && hash == PoolHash && (kv.Key == EntityKey(kind) || kv.Key == ProxyKey(kind))
		})
	})
}

func has(m membership.Member, key string) bool {
	return slices.ContainsFunc(m.Meta, func(kv membership.KeyValue) bool { return kv.Key == key })
}

// Kinds returns the entity types that the member hosts.
func Kinds(m membership.Member) (kinds []string) {
	for _, kv := range m.Meta {
		if kind, ok := strings.CutPrefix(kv.Key, entityPrefix); ok {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Split returns the entity or singleton type that a metadata key names; ok is false for other keys.
func Split(key string) (kind string, ok bool) {
	if kind, ok = strings.CutPrefix(key, entityPrefix); !ok {
		kind, ok = strings.CutPrefix(key, singletonPrefix)
	}
	return kind, ok
}

// Hosted reports whether any member in the view hosts the type, as entities or as a singleton.
func Hosted(v *membership.View, kind string) bool {
	return slices.ContainsFunc(v.ByAge, func(m membership.MemberView) bool {
		return Hosts(m.Member, kind) || HostsSingleton(m.Member, kind)
	})
}

// Singletons returns, for each singleton, the members that may run it, the oldest first.
func Singletons(v *membership.View) map[string][]transport.Address {
	hosts := map[string][]transport.Address{}
	for _, m := range v.ByAge {
		for _, kv := range m.Meta {
			if kind, ok := strings.CutPrefix(kv.Key, singletonPrefix); ok && m.Status != membership.Down {
				hosts[kind] = append(hosts[kind], m.Address)
			}
		}
	}
	return hosts
}

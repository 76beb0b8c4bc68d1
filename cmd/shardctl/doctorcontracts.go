package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
)

// examineContracts looks for types whose hosts have different programs: by the hash of the whole
// contract, and by the methods, which callers notice.
func examineContracts(facts []admin.NodeFact) (found []finding) {
	types := 0
	var silent []string // hosts that report no hash
	hosts := hostsByType(facts)
	for _, kind := range clusterview.SortedKeys(hosts) {
		types++
		found = append(found, examineMethods(kind, hosts[kind])...)
		hashes := map[string][]string{} // nodes by hash
		for _, h := range hosts[kind] {
			if h.Hash == "" {
				silent = append(silent, h.node)
			} else {
				hashes[h.Hash] = append(hashes[h.Hash], h.node)
			}
		}
		if len(hashes) > 1 {
			found = append(found, wrong("contracts", fmt.Sprintf("%s has different contracts: %s", kind, groups(hashes)),
				"finish the rollout; shardgen breaking, with the folders of the two programs' packages, says whether one understands the other"))
		}
	}
	if len(silent) > 0 {
		slices.Sort(silent)
		found = append(found, skipped("contracts", fmt.Sprintf("no hash of a contract comes from %s, so that its methods alone are compared", strings.Join(slices.Compact(silent), ", ")),
			"upgrade shardgen, and run go generate"))
	}
	return fine("contracts", fmt.Sprintf("all hosts of %d types have the same contracts", types), found)
}

// A hostOf is a member with its contract of a type.
type hostOf struct {
	node string
	admin.Contract
}

func hostsByType(facts []admin.NodeFact) map[string][]hostOf {
	hosts := map[string][]hostOf{}
	for _, f := range facts {
		for _, c := range f.Contracts {
			hosts[c.Kind] = append(hosts[c.Kind], hostOf{f.Node.Name, c})
		}
	}
	return hosts
}

// examineMethods looks for methods that some hosts of a type have and others do not.
func examineMethods(kind string, hosts []hostOf) (found []finding) {
	methods := map[string]bool{}
	for _, h := range hosts {
		for _, m := range h.Methods {
			methods[m] = true
		}
	}
	for _, m := range clusterview.SortedKeys(methods) {
		var missing []string
		for _, h := range hosts {
			if !slices.Contains(h.Methods, m) {
				missing = append(missing, h.node)
			}
		}
		if len(missing) > 0 {
			found = append(found, wrong("contracts", fmt.Sprintf("%s.%s is unknown at %s", kind, m, strings.Join(missing, ", ")),
				"finish the rollout: until then a call of it may fail with ErrNoMethod"))
		}
	}
	return found
}

// groups are the nodes by hash, the largest group first.
func groups(hashes map[string][]string) string {
	keys := clusterview.SortedKeys(hashes)
	slices.SortStableFunc(keys, func(a, b string) int { return len(hashes[b]) - len(hashes[a]) })
	var parts []string
	for _, hash := range keys {
		parts = append(parts, fmt.Sprintf("%s at %s", hash, strings.Join(hashes[hash], ", ")))
	}
	return strings.Join(parts, "; ")
}

package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
)

// facts compares what the members say of their processes.
func (j *judge) facts() {
	var all []Answer
	for _, a := range j.Answers {
		if a.Fact != nil {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return
	}
	for _, a := range all {
		if !a.Fact.Ready && len(a.Fact.Findings) == 0 { // of a release that sends no findings
			j.add(operator.Fault, Ready, "old", "shardctl events -grep "+a.Node.Name, "%s", strings.Join(a.Fact.Reasons, "; ")).Node = a.Node.Name
		}
	}
	types, shards := map[string]int{}, 0
	for _, a := range j.Answers {
		for _, t := range a.Types {
			shards += max(int(t.Shards)-types[t.Kind], 0)
			types[t.Kind] = max(types[t.Kind], int(t.Shards))
		}
	}
	j.fine(Cluster, "%d members, %d types, %d shards", len(j.View.Members), len(types), shards)
	j.fine(Ready, "all %d members that answer are ready", len(all))
	j.fine(Turns, "no turn has run far longer than usual for its type while calls wait")
	j.fine(Buffers, "calls that wait have room, and none was refused for lack of room")
	j.fine(Clients, "no client was refused")
	j.fine(Credentials, "no credential ends soon")
	j.clocks(all)
	j.payload(all)
	j.versions(all)
	j.contracts(all)
	j.stores(all)
}

// clocks compares the members' clocks with this computer's. When exactly a member read its clock is
// not known: at some time between the request and the answer.
func (j *judge) clocks(all []Answer) {
	worst := time.Duration(0)
	for _, a := range all {
		skew := max(a.Asked.Sub(a.Fact.Time), a.Fact.Time.Sub(a.Answered), 0)
		worst = max(worst, skew)
		if skew > clockSkew {
			j.add(operator.Fault, Clocks, a.Node.Name, syncClocks,
				"%s's clock and this computer's differ by at least %v", a.Node.Name, skew.Round(time.Millisecond))
		}
	}
	j.fine(Clocks, "all are within %v of this computer's", max(worst, time.Millisecond).Round(time.Millisecond))
}

func (j *judge) payload(all []Answer) {
	least := 0
	for _, a := range all {
		if least == 0 || a.Fact.MaxPayload < least {
			least = a.Fact.MaxPayload
		}
		if a.Fact.MaxPayload < payloadMin {
			j.add(operator.Fault, Payload, a.Node.Name, "set max_payload to 1MB or more at every server: calls, states and frames are bounded by it",
				"%s is connected to %s, which takes at most %d bytes in a message", a.Node.Name, cmp.Or(a.Fact.Server, "a server"), a.Fact.MaxPayload)
		}
	}
	j.fine(Payload, "max_payload is %d bytes or more", least)
}

func (j *judge) versions(all []Answer) {
	at := map[string][]string{}
	for _, a := range all {
		key := fmt.Sprintf("shardgen %s, %s", cmp.Or(a.Fact.Release, "(devel)"), a.Fact.Go)
		at[key] = append(at[key], a.Node.Name)
	}
	if len(at) > 1 {
		var parts []string
		for _, key := range SortedKeys(at) {
			parts = append(parts, fmt.Sprintf("%s at %s", key, strings.Join(at[key], ", ")))
		}
		j.add(operator.Note, Versions, "", "finish the rollout", "the members have different versions: %s", strings.Join(parts, "; "))
	}
	j.fine(Versions, "%s", SortedKeys(at)[0])
}

func (j *judge) stores(all []Answer) {
	var with, without []string
	for _, a := range all {
		if a.Fact.Store {
			with = append(with, a.Node.Name)
		} else {
			without = append(without, a.Node.Name)
		}
	}
	switch {
	case len(with) > 0 && len(without) > 0:
		j.add(operator.Fault, Store, "none", "set Config.Store to the same store at all members", "%s have no store, but other members have one", strings.Join(without, ", "))
	case len(with) > 0:
		j.fine(Store, "all members have a store (shardctl store verify checks its records)")
	default:
		j.fine(Store, "no member has a store: durable types cannot be hosted")
	}
}

type hostOf struct {
	node string
	operator.Contract
}

// contracts reports the types whose hosts have different contracts or methods.
func (j *judge) contracts(all []Answer) {
	hosts := map[string][]hostOf{}
	for _, a := range all {
		for _, c := range a.Fact.Contracts {
			hosts[c.Kind] = append(hosts[c.Kind], hostOf{a.Node.Name, c})
		}
	}
	var silent []string // hosts that report no hash
	for _, kind := range SortedKeys(hosts) {
		j.methods(kind, hosts[kind])
		hashes := map[string][]string{} // nodes by hash
		for _, h := range hosts[kind] {
			if h.Hash == "" {
				silent = append(silent, h.node)
			} else {
				hashes[h.Hash] = append(hashes[h.Hash], h.node)
			}
		}
		if len(hashes) > 1 {
			j.add(operator.Fault, Contracts, kind, "finish the rollout; shardgen breaking, with the folders of the two programs' packages, says whether one understands the other",
				"%s has different contracts: %s", kind, groups(hashes))
		}
	}
	if len(silent) > 0 {
		slices.Sort(silent)
		j.add(operator.Skipped, Contracts, "", "upgrade shardgen, and run go generate",
			"no contract hash from %s, so only the methods are compared", strings.Join(slices.Compact(silent), ", "))
	}
	j.fine(Contracts, "all hosts of %d types have the same contracts", len(hosts))
}

func (j *judge) methods(kind string, hosts []hostOf) {
	methods := map[string]bool{}
	for _, h := range hosts {
		for _, m := range h.Methods {
			methods[m] = true
		}
	}
	for _, m := range SortedKeys(methods) {
		var missing []string
		for _, h := range hosts {
			if !slices.Contains(h.Methods, m) {
				missing = append(missing, h.node)
			}
		}
		if len(missing) > 0 {
			j.add(operator.Fault, Contracts, kind+"."+m, "finish the rollout: until then a call of it may fail with ErrNoMethod",
				"%s.%s is unknown at %s", kind, m, strings.Join(missing, ", "))
		}
	}
}

func groups(hashes map[string][]string) string {
	keys := SortedKeys(hashes)
	slices.SortStableFunc(keys, func(a, b string) int { return len(hashes[b]) - len(hashes[a]) })
	var parts []string
	for _, hash := range keys {
		parts = append(parts, fmt.Sprintf("%s at %s", hash, strings.Join(hashes[hash], ", ")))
	}
	return strings.Join(parts, "; ")
}

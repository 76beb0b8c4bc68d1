package clusterview

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/membership"
)

// A Health says whether a cluster is healthy, and lists its faults. Conditions that pass by
// themselves, such as moving shards, are notes.
type Health struct {
	Cluster string   `json:"cluster"`
	Healthy bool     `json:"healthy"`
	Members int      `json:"members"`
	Types   int      `json:"types"`
	Shards  int      `json:"shards"`
	Moving  int      `json:"moving"`
	Wrong   []string `json:"wrong"`
	Notes   []string `json:"notes"`
}

// Judge returns the health of a cluster. v is the view of one member, and all are the answers of
// all members.
func Judge(cluster string, v admin.View, all []admin.NodeShards) Health {
	h := Health{Cluster: cluster, Members: len(v.Members), Wrong: []string{}, Notes: []string{}}
	wrong := func(format string, args ...any) { h.Wrong = append(h.Wrong, fmt.Sprintf(format, args...)) }
	note := func(format string, args ...any) { h.Notes = append(h.Notes, fmt.Sprintf(format, args...)) }
	for _, m := range v.Members {
		switch {
		case m.Status == membership.Down:
			wrong("%v is down: the others have given it up, and remove it next", m.Address)
		case !m.Reachable:
			wrong("%v is not reachable: %s", m.Address, m.Evidence)
		case m.Status != membership.Up:
			note("%v is %v", m.Address, m.Status)
		}
	}
	if !v.Converged && len(v.Members) > 0 { // without members there is no view, and an error says why
		note("the members do not agree yet, so nobody is admitted or removed: %s", v.Why)
	}
	if !v.Pause.IsZero() {
		note("rebalancing is paused by %s since %s (shardctl resume ends that)", v.Pause.By, v.Pause.At.UTC().Format(time.RFC3339))
	}
	for _, s := range v.Singletons {
		if s.Node.IsZero() {
			wrong("singleton %s runs nowhere: %s", s.Kind, s.Why)
		}
	}
	h.judgeShards(Unhosted(v, all), all, wrong, note)
	h.Healthy = len(h.Wrong) == 0
	return h
}

// Unhosted returns the types that no member hosts although calls from members wait for them, with
// the number of waiting calls. Calls that wait at clients are not counted: only the clients know
// them.
func Unhosted(v admin.View, all []admin.NodeShards) map[string]int {
	waiting := map[string]int{}
	for _, n := range all {
		for _, t := range n.Types {
			if t.Waiting > 0 {
				waiting[t.Kind] += int(t.Waiting)
			}
		}
	}
	for _, m := range v.Members {
		for _, kind := range m.Hosts {
			delete(waiting, kind)
		}
	}
	for _, s := range v.Singletons {
		delete(waiting, s.Kind)
	}
	return waiting
}

func (h *Health) judgeShards(unhosted map[string]int, all []admin.NodeShards, wrong, note func(string, ...any)) {
	size, homeless, waiting := map[string]int{}, map[string]int{}, map[string]int{}
	for _, n := range all {
		if n.Err != nil {
			wrong("%v does not answer: %v", n.Node, n.Err)
		}
		for _, t := range n.Types {
			size[t.Kind] = max(size[t.Kind], int(t.Shards))
			homeless[t.Kind] = max(homeless[t.Kind], len(t.Homeless))
			waiting[t.Kind] += int(t.Waiting)
			if t.Stuck != "" {
				wrong("%v: %s", n.Node, t.Stuck)
			}
			for _, s := range t.Held {
				waiting[t.Kind] += int(s.Waiting)
				if s.State == "draining" || s.State == "sent" {
					h.Moving++
				}
			}
		}
	}
	h.Types = len(size)
	for _, kind := range SortedKeys(unhosted) {
		wrong("%s: no member hosts it, so calls of it wait: %d (start a member that hosts it)", kind, unhosted[kind])
	}
	for _, kind := range SortedKeys(size) {
		h.Shards += size[kind]
		if unhosted[kind] > 0 {
			continue
		}
		if n := homeless[kind]; n > 0 {
			wrong("%s: %d of %d shards have no home (shardctl where %s ID says why)", kind, n, size[kind], kind)
		}
		if n := waiting[kind]; n > 0 {
			note("%s: calls that wait for a home, or for a shard to open: %d", kind, n)
		}
	}
	if h.Moving > 0 {
		note("shards on the move: %d", h.Moving)
	}
}

// SortedKeys returns the keys of a map, sorted.
func SortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

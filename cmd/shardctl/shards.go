package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
)

// The JSON of shards. Fields are added, never changed.
type (
	jsonShard struct {
		Type     string `json:"type"`
		Shard    uint32 `json:"shard"`
		Node     string `json:"node,omitempty"` // name#incarnation; none: it has no home
		State    string `json:"state"`
		Entities uint32 `json:"entities"`
		Active   uint32 `json:"active"`
		Waiting  uint32 `json:"waiting"`
	}
	jsonShards struct {
		Cluster string            `json:"cluster"`
		Shards  []jsonShard       `json:"shards"`
		Silent  map[string]string `json:"silent,omitempty"` // why a member did not answer
		// Unhosted is the number of calls of members that wait for a type that no member hosts.
		Unhosted map[string]int `json:"unhosted,omitempty"`
	}
)

// noHome is the state of a shard that no member has.
const noHome = "no home"

// shards prints the shards by type and member; for one type, each of them.
func shards(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	all, err := c.Shards(ctx, o.kind)
	if err != nil {
		return err
	}
	v, err := c.Members(ctx)
	if err != nil {
		return err
	}
	rows, silent := shardRows(all)
	unhosted := clusterview.Unhosted(v, all)
	switch {
	case o.json:
		err = printJSON(w, jsonShards{o.cluster, rows, silent, unhosted})
	case o.kind != "" && (unhosted[o.kind] > 0 || len(rows) == 0 && !hosted(v, o.kind)):
		return fmt.Errorf("cluster %s: no member hosts the type %s, so calls of it wait; those of members: %d (start a member that hosts it; shardctl shards lists the types)", o.cluster, o.kind, unhosted[o.kind])
	case o.kind == "":
		err = printShardSums(w, o, rows)
	default:
		err = printShards(w, o, rows)
	}
	for _, kind := range clusterview.SortedKeys(unhosted) {
		if err == nil && !o.json && o.kind == "" {
			_, err = fmt.Fprintf(w, "%s: no member hosts it, so calls of it wait: %d (start a member that hosts it)\n", kind, unhosted[kind])
		}
	}
	if err == nil && len(silent) > 0 {
		err = fmt.Errorf("cluster %s: not all members have answered: %v", o.cluster, clusterview.SortedKeys(silent))
	}
	return err
}

// hosted reports whether a member hosts a type.
func hosted(v admin.View, kind string) bool {
	return slices.ContainsFunc(v.Members, func(m admin.Member) bool { return slices.Contains(m.Hosts, kind) })
}

// shardRows are the shards of all answers, ordered by type and number, and why members did not
// answer. A shard that moves has a row for each of its two members.
func shardRows(all []admin.NodeShards) (rows []jsonShard, silent map[string]string) {
	rows, silent = []jsonShard{}, map[string]string{}
	type id struct {
		kind  string
		shard uint32
	}
	homeless := map[id]bool{}
	for _, n := range all {
		if n.Err != nil {
			silent[n.Node.String()] = n.Err.Error()
		}
		for _, t := range n.Types {
			for _, number := range t.Homeless {
				homeless[id{t.Kind, number}] = true
			}
			for _, s := range t.Held {
				rows = append(rows, jsonShard{t.Kind, s.Shard, n.Node.String(), s.State, s.Entities, s.Active, s.Waiting})
			}
		}
	}
	for s := range homeless {
		rows = append(rows, jsonShard{Type: s.kind, Shard: s.shard, State: noHome})
	}
	slices.SortFunc(rows, func(a, b jsonShard) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Node, b.Node))
	})
	return rows, silent
}

// printShardSums prints one line for each type and member.
func printShardSums(w io.Writer, o *options, rows []jsonShard) error {
	type place struct{ kind, node string }
	type sum struct{ active, moving, entities, values, waiting int }
	sums := map[place]*sum{}
	var places []place
	for _, r := range rows {
		p := place{r.Type, r.Node}
		s := sums[p]
		if s == nil {
			s = &sum{}
			sums[p] = s
			places = append(places, p)
		}
		if r.State == "active" || r.State == noHome {
			s.active++
		} else {
			s.moving++
		}
		s.entities += int(r.Entities)
		s.values += int(r.Active)
		s.waiting += int(r.Waiting)
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.node, b.node)) })
	t := tableOf(o, "TYPE", "NODE", "SHARDS", "MOVING", "ENTITIES", "IN MEMORY", "WAITING")
	for _, p := range places {
		s := sums[p]
		t.row(p.kind, nameOf(p.node), s.active, s.moving, s.entities, s.values, s.waiting)
	}
	return t.print(w)
}

func printShards(w io.Writer, o *options, rows []jsonShard) error {
	t := tableOf(o, "SHARD", "NODE", "STATE", "ENTITIES", "IN MEMORY", "WAITING")
	for _, r := range rows {
		t.row(r.Shard, nameOf(r.Node), r.State, r.Entities, r.Active, r.Waiting)
	}
	return t.print(w)
}

// nameOf is the name of a member in a table, without its incarnation: a table fits 80 columns.
func nameOf(node string) string {
	name, _, _ := strings.Cut(node, "#")
	return cmp.Or(name, "(none)")
}

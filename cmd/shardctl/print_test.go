package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// longName is a name as Kubernetes gives it, with the most characters that it may have.
func longName(i int) string {
	return fmt.Sprintf("auction-production-eu-central-1-statefulset-%s-%d", strings.Repeat("x", 17), i)
}

// TestTablesFit80Columns: every table has at most 80 columns, with names and ids of any length, and the
// end of a name is still there. With -wide nothing is clipped.
func TestTablesFit80Columns(t *testing.T) {
	require.Len(t, longName(1), 63)
	id := strings.Repeat("order-ümlaut-", 80)
	v := admin.View{Converged: true, Self: transport.Address{Name: longName(1)}}
	var rows []jsonShard
	var counted []jsonCounters
	top := clusterview.Rates{Cluster: "shop", Seconds: 3}
	for i := range 3 {
		a := transport.Address{Name: longName(i), Incarnation: uint64(i + 1)}
		v.Members = append(v.Members, admin.Member{
			Address: a, Status: membership.Up, Age: uint32(i), Evidence: "silent for 3s, as 17 members say", Roles: []string{"backend", "frontend"}, Hosts: []string{"Auction", "User", "Payment", "Chief"},
		})
		v.Singletons = append(v.Singletons, admin.Singleton{Kind: "ReconciliationOfficer", Node: a, Hosts: []transport.Address{a, a, a}})
		rows = append(rows, jsonShard{Type: "Auction", Shard: uint32(256 + i), Node: a.String(), State: "forwarding", Entities: 1 << 31, Active: 1 << 31, Waiting: 1 << 31})
		counted = append(counted, jsonCounters{Node: a.String(), Counters: map[string]uint64{"not acknowledged": 1 << 60}})
		top.Nodes = append(top.Nodes, clusterview.NodeRate{Node: a.Name, Rate: 1e6, Busy: 99})
		top.Methods = append(top.Methods, clusterview.MethodRate{Type: "Auction", Method: "ReconcileEverythingThatWasEverSold", Rate: 1e6, Failed: 1e6, Mean: 0.1, Longest: 12})
		top.Entities = append(top.Entities, clusterview.EntityRate{Type: "Auction", ID: id, Node: a.Name, Rate: 1e6, Busy: 1})
		top.Callers = append(top.Callers, clusterview.CallerRate{From: "client " + a.Name, Type: "Auction", ID: id, Rate: 1e6})
		top.Running = append(top.Running, clusterview.RunningTurn{Type: "Auction", ID: id, Method: "Bid", From: "entity User/" + id, Seconds: 90})
	}
	v.Leader = v.Members[0].Address
	for name, print := range map[string]func(io.Writer, *options) error{
		"members": func(w io.Writer, o *options) error { return printView(w, o, v) },
		"sums":    func(w io.Writer, o *options) error { return printShardSums(w, o, rows) },
		"shards":  func(w io.Writer, o *options) error { return printShards(w, o, rows) },
		"counters": func(w io.Writer, o *options) error {
			return printCounters(w, o, counted, map[string]uint64{"not acknowledged": 1 << 60})
		},
		"top": func(w io.Writer, o *options) error { return printTop(w, o, top) },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, print(&b, &options{rows: 10}))
			for line := range strings.Lines(b.String()) {
				require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), tableWidth, line)
			}
			require.Contains(t, b.String(), "auction", "the begin of a name")
			b.Reset()
			require.NoError(t, print(&b, &options{rows: 10, wide: true}))
			require.Contains(t, b.String(), longName(1))
		})
	}
}

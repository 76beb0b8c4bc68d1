package clusterview

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

var (
	web1 = transport.Address{Name: "web-1", Incarnation: 1}
	web2 = transport.Address{Name: "web-2", Incarnation: 2}
)

// TestJudge checks that lasting trouble makes a cluster unhealthy, each with its reason, and that
// passing conditions are only notes.
func TestJudge(t *testing.T) {
	up := []admin.Member{
		{Address: web1, Status: membership.Up, Reachable: true, Hosts: []string{"Cart"}},
		{Address: web2, Status: membership.Up, Reachable: true},
	}
	held := func(state string, waiting uint32) admin.Type {
		return admin.Type{Kind: "Cart", Shards: 4, Held: []admin.Shard{{Shard: 4, State: state, Waiting: waiting}}}
	}
	for name, tt := range map[string]struct {
		view  func(v *admin.View)
		all   []admin.NodeShards
		wrong string // "": healthy
		note  string
	}{
		"healthy":       {all: []admin.NodeShards{{Node: web1, Types: []admin.Type{held("active", 0)}}, {Node: web2}}},
		"down":          {view: func(v *admin.View) { v.Members[1].Status = membership.Down }, wrong: "web-2#0000000000000002 is down: the others have given it up, and remove it next"},
		"not reachable": {view: func(v *admin.View) { v.Members[1].Reachable, v.Members[1].Evidence = false, "silent for 3s" }, wrong: "web-2#0000000000000002 is not reachable: silent for 3s"},
		"silent":        {all: []admin.NodeShards{{Node: web2, Err: errors.New("no answer within 3s")}}, wrong: "web-2#0000000000000002 does not answer: no answer within 3s"},
		"no home": {
			all:   []admin.NodeShards{{Node: web1, Types: []admin.Type{{Kind: "Cart", Shards: 4, Homeless: []uint32{4, 7}}}}},
			wrong: "Cart: 2 of 4 shards have no home (shardctl where Cart ID says why)",
		},
		"singleton": {view: func(v *admin.View) { v.Singletons = []admin.Singleton{{Kind: "Chief", Why: "no host"}} }, wrong: "singleton Chief runs nowhere: no host"},
		"stuck": {
			all:   []admin.NodeShards{{Node: web1, Types: []admin.Type{{Kind: "Cart", Shards: 4, Stuck: "shard Cart/4 has not opened for 12s: why"}}}},
			wrong: "web-1#0000000000000001: shard Cart/4 has not opened for 12s: why",
		},
		"leaving":    {view: func(v *admin.View) { v.Members[1].Status = membership.Leaving }, note: "web-2#0000000000000002 is leaving"},
		"disagree":   {view: func(v *admin.View) { v.Converged, v.Why = false, "web-2 has not seen it" }, note: "the members do not agree yet, so nobody is admitted or removed: web-2 has not seen it"},
		"no member":  {view: func(v *admin.View) { *v = admin.View{} }}, // the error of the question says why
		"paused":     {view: func(v *admin.View) { v.Pause = admin.Pause{By: "ann", At: time.Unix(0, 0)} }, note: "rebalancing is paused by ann since 1970-01-01T00:00:00Z (shardctl resume ends that)"},
		"moves":      {all: []admin.NodeShards{{Node: web1, Types: []admin.Type{held("draining", 2)}}}, note: "shards on the move: 1"},
		"calls wait": {all: []admin.NodeShards{{Node: web1, Types: []admin.Type{{Kind: "Cart", Waiting: 3}}}}, note: "Cart: calls that wait for a home, or for a shard to open: 3"},
		"unhosted": {
			all:   []admin.NodeShards{{Node: web1, Types: []admin.Type{{Kind: "Bill", Waiting: 3}}}, {Node: web2, Types: []admin.Type{{Kind: "Bill", Waiting: 1}}}},
			wrong: "Bill: no member hosts it, so calls of it wait: 4 (start a member that hosts it)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := admin.View{Converged: true, Members: append([]admin.Member{}, up...)}
			if tt.view != nil {
				tt.view(&v)
			}
			h := Judge("shop", v, tt.all)
			require.Equal(t, tt.wrong == "", h.Healthy)
			if tt.wrong != "" {
				require.Equal(t, []string{tt.wrong}, h.Wrong)
			}
			if tt.note != "" {
				require.Contains(t, h.Notes, tt.note)
			} else {
				require.Empty(t, h.Notes)
			}
		})
	}
}

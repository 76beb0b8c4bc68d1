package membership

import (
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/transport"
)

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*core.Config)
		want   string // "": it is fine
	}{
		{"the zero value", func(*core.Config) {}, ""},
		{"roles twice", func(c *core.Config) { c.Roles = []string{"b", "a", "b"} }, ""},
		{"no name", func(c *core.Config) { c.Self.Name = "" }, "node name is empty"},
		{"a name with a dot", func(c *core.Config) { c.Self.Name = "a.b" }, `holds '.'`},
		{"a seed with a space", func(c *core.Config) { c.Seeds = []string{"a b"} }, "seed name"},
		{"a key twice", func(c *core.Config) {
			c.Compat = []gossip.KeyValue{{Key: "lanes", Value: "4"}, {Key: "x", Value: ""}, {Key: "lanes", Value: "5"}}
		}, `key "lanes" occurs twice in Meta or Compat`},
		{"bytes", func(c *core.Config) { c.Meta = []gossip.KeyValue{{Key: "k", Value: "\xff"}} }, "not UTF-8"},
		{"a description too large", func(c *core.Config) {
			c.Meta = []gossip.KeyValue{{Key: "k", Value: strings.Repeat("x", gossip.MaxDescription)}}
		}, "want at most 65536 (host fewer types"},
		{"auto-down without a time", func(c *core.Config) { c.Downing = splitbrain.DowningAuto }, "AutoDownAfter is 0s: set both or neither"},
		{"a time without auto-down", func(c *core.Config) { c.AutoDownAfter = time.Minute }, "set both or neither"},
		{"a quorum without a size", func(c *core.Config) { c.Downing = splitbrain.DowningStaticQuorum }, "QuorumSize 0"},
		{"a size without a quorum", func(c *core.Config) { c.QuorumSize = 3 }, "QuorumSize 3"},
		{"a role for the broker", func(c *core.Config) { c.DowningRole = "core" }, "does not use a role"},
		{"the oldest kept by another way", func(c *core.Config) { c.KeepOldestAlone = true }, "KeepOldestAlone"},
		{"a lease that outlives StableAfter", func(c *core.Config) { c.StableAfter = 4 * time.Second }, "below QuorumTimeout"},
		{"a static quorum", func(c *core.Config) {
			c.Downing, c.QuorumSize, c.DowningRole = splitbrain.DowningStaticQuorum, 3, "core"
		}, ""},
		{"a negative time", func(c *core.Config) { c.JoinTimeout = -1 }, "negative"},
		{"a lease that outlives GoneAfter", func(c *core.Config) { c.SelfHeartbeatTimeout = 2 * time.Second }, "below SelfHeartbeatTimeout"},
		{"a lease that outlives CutAfter", func(c *core.Config) { c.CutAfter = 4 * time.Second }, "below QuorumTimeout"},
		{"a share above one", func(c *core.Config) { c.GossipToUnseen = 1.5 }, "0 to 1"},
		{"a threshold that is never reached", func(c *core.Config) { c.PhiThreshold = 1000 }, "PhiThreshold"},
		{"an unknown downing", func(c *core.Config) { c.Downing = 77 }, "Downing"},
	} {
		config := core.Config{Self: transport.Address{Name: "a", Incarnation: 1}, Cluster: "test"}
		c.change(&config)
		_, err := New(config)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: got %v, want no error", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "configure membership: ")):
			t.Errorf("%s: got %v, want one that says %q", c.name, err, c.want)
		}
	}
}

package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// stubborn is a strategy that proposes impossible homes and moves.
type stubborn struct{}

func (stubborn) String() string { return "stubborn" }

func (stubborn) Allocate(s placement.ShardID, _ []placement.Load) transport.Address {
	if s.Shard == 2 {
		return node("nowhere")
	}
	return transport.Address{}
}

func (stubborn) Rebalance(_ string, homes []placement.Load, _ int) []placement.Transfer {
	return []placement.Transfer{{Shard: 2, To: homes[0].Node}, {Shard: 99, To: homes[0].Node}, {Shard: 3, To: node("nowhere")}}
}

// TestStrategyIsNotTrusted: no shard goes to a node that cannot host it, whatever the strategy
// proposes. The strategy is asked when something has changed, not at every tick.
func TestStrategyIsNotTrusted(t *testing.T) {
	c, err := New(Config{Self: node("a"), Term: termOf(1), Strategy: stubborn{}})
	if err != nil {
		t.Fatal(err)
	}
	kinds := []TypeInfo{{Name: "Cart", Package: "p", Shards: 2, HashName: "xxh64", Hosts: true}}
	c.Step(t0, (&script{}).view([]string{"a:up:hosts", "b:up:hosts"}))
	c.Step(t0, Receive{node("b"), Register{Term: termOf(1), Node: node("b"), Seq: 1, Types: kinds}})
	c.Step(t0, Receive{node("a"), Register{Term: termOf(1), Node: node("a"), Seq: 1, Types: kinds}})
	out := c.Step(t0, Receive{node("a"), Ask{Type: "Cart"}})
	var refused []string
	for _, e := range out.Events {
		if e.What == StrategyRefused {
			refused = append(refused, e.Shard.String())
		}
	}
	want := "Cart/2 Cart/2 Cart/99 Cart/3"
	if got := strings.Join(refused, " "); got != want {
		t.Errorf("refused %s, want %s", got, want)
	}
	if len(c.moves) != 0 || c.Table().Len() != 0 {
		t.Errorf("%d moves, %d entries; want none", len(c.moves), c.Table().Len())
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if out := c.Step(t0.Add(time.Minute), Tick{}); len(out.Events) != 0 {
		t.Errorf("the strategy is asked again when only time has passed: %v, want no events", out.Events)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Self: node("a"), Term: termOf(1)}
	if _, err := New(good); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	for name, change := range map[string]func(*Config){
		"no self":            func(c *Config) { c.Self = transport.Address{} },
		"no term":            func(c *Config) { c.Term = placement.Term{} },
		"negative minimum":   func(c *Config) { c.MinMembers = -1 },
		"negative moves":     func(c *Config) { c.MaxMoves = -1 },
		"negative leaving":   func(c *Config) { c.MaxLeaveMoves = -1 },
		"negative interval":  func(c *Config) { c.ResendInterval = -1 },
		"negative rebalance": func(c *Config) { c.RebalanceInterval = -1 },
		"negative status":    func(c *Config) { c.StatusInterval = -1 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestStrategyNames(t *testing.T) {
	for _, name := range []string{"a", "least shards", "größte", strings.Repeat("x", maxTypeBytes)} {
		if err := CheckStrategyName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "a\tb", "a\x1f", "\x00", strings.Repeat("x", maxTypeBytes+1)} {
		if CheckStrategyName(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

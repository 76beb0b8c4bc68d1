package node

import (
	"math"
	"testing"
	"testing/fstest"
	"time"

	"github.com/shardgen/shardgen/runtime/measure"
)

// TestProcessors: a quota of the control group, or of a control group above it, bounds the
// processors.
func TestProcessors(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  float64
	}{
		{"no control groups", nil, 8},
		{"no quota", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8},
		{"a quota", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2.5},
		{"a quota above", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "50000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000"}, 0.5},
		{"a higher quota", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1600000 100000\n"}, 8},
		{"no such file", map[string]string{"proc/self/cgroup": "0::/../x\n"}, 8},
		{"not a quota", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "5 0"}, 8},
		{"version 1", map[string]string{"proc/self/cgroup": "4:cpu:/a\n"}, 8},
	} {
		system := fstest.MapFS{}
		for name, text := range c.files {
			system[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := processors(system, 8); got != c.want {
			t.Errorf("%s: %v processors, want %v", c.name, got, c.want)
		}
	}
}

// TestScale: the shards share the processor time of the process in proportion to the times of their
// turns. Time above maxOverhead is not given to shards.
func TestScale(t *testing.T) {
	for _, c := range []struct {
		name             string
		took, cpu, turns time.Duration
		used             float64
		want             [2]float64 // of a shard with 3 s and one with 1 s of turns
	}{
		{"half of the turns' time is waiting", 10 * time.Second, 2 * time.Second, 4 * time.Second, 0.2, [2]float64{0.15, 0.05}},
		{"the process does more than turns", 10 * time.Second, 8 * time.Second, 4 * time.Second, 0.8, [2]float64{0.6, 0.2}},
		{"far more", 10 * time.Second, 1280 * time.Second, 4 * time.Second, 128, [2]float64{0.3 * maxOverhead, 0.1 * maxOverhead}},
		{"it is not known", 10 * time.Second, 0, 4 * time.Second, 0.4, [2]float64{0.3, 0.1}},
	} {
		l := ProcessLoad{Types: []TypeLoad{{"User", []ShardUse{{4, 1e9}, {5, 3e9}, {6, 0}}}}}
		l.scale(c.took, c.cpu, c.turns)
		want := []measure.Shard{{Kind: "User", Shard: 5, Used: c.want[0]}, {Kind: "User", Shard: 4, Used: c.want[1]}}
		if len(l.Hottest) != len(want) || math.Abs(l.Used-c.used) > 1e-9 {
			t.Errorf("%s: %+v", c.name, l)
			continue
		}
		for i := range want {
			got := l.Hottest[i]
			if got.Shard != want[i].Shard || math.Abs(got.Used-want[i].Used) > 1e-9 {
				t.Errorf("%s: %+v, want %+v", c.name, got, want[i])
			}
		}
	}
}

// TestOf: Of returns the load of a shard, and 0 for a shard without a load.
func TestOf(t *testing.T) {
	l := ProcessLoad{Types: []TypeLoad{{"Cart", []ShardUse{{4, 0.1}}}, {"User", []ShardUse{{4, 0.2}, {5, 0.3}, {7, 0.4}}}}}
	for _, c := range []struct {
		kind  string
		shard uint32
		want  float64
	}{{"Cart", 4, 0.1}, {"User", 5, 0.3}, {"User", 7, 0.4}, {"User", 6, 0}, {"Boat", 4, 0}} {
		if got := l.Of(c.kind, c.shard); got != c.want {
			t.Errorf("shard %d of %s uses %v, want %v", c.shard, c.kind, got, c.want)
		}
	}
}

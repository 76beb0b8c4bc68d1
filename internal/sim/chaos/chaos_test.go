package chaos

import (
	"context"
	"runtime"
	"testing"

	"github.com/shardgen/shardgen/internal/invariant"
)

// TestRandomRuns makes 200 random runs, each twice: those of the first seeds that
// are cheap.
func TestRandomRuns(t *testing.T) {
	seeds := 200
	if invariant.Race {
		seeds = 50
	}
	totals := Sweep{Seeds: seeds, Workers: runtime.GOMAXPROCS(0), Twice: 1, Cheap: true, Done: func(r Result) {
		if r.Err != nil {
			t.Errorf("seed %d: %v\n%s", r.Seed, r.Err, Replay(r.Seed))
		}
	}}.Run(context.Background())
	c := totals.Counts
	t.Logf("%d processes, %d steps, %+v", totals.Nodes, totals.Steps, c)
	if totals.Runs != seeds || totals.Twice != seeds {
		t.Errorf("got %d runs, %d of them twice; want %d", totals.Runs, totals.Twice, seeds)
	}
	if c.Ups == 0 || c.Downs == 0 || c.Fenced == 0 || c.Leaves == 0 || c.Rejoins == 0 || c.SelfDowned == 0 || c.JoinFailed == 0 {
		t.Errorf("the faults do not reach everything: %+v", c)
	}
}

// TestFoundSeeds are runs that once broke something, each with what it was. A run
// changes with the cores, so most of them are transcripts of runtime/membership too.
func TestFoundSeeds(t *testing.T) {
	for _, c := range []struct {
		seed uint64
		was  string
	}{
		{1158, "in a large cluster nobody asked whom an accuser that does not watch it holds unreachable"},
		{1118, "the majority read what the minority had held against it, and stopped"},
		{1196, "one age from two leaders, of whom one was downed and removed in one step"},
		{3926, "the majority read what the minority had held against it, each found itself too broken to stay, and stopped"},
		{7412, "ways broke one after another, and the majority took those who were well for the broken ones"},
		{6769, "nobody knew a weakly-up member when the side that had admitted it was gone"},
		{3009, "fenced on a proof of death from before the member came back"},
	} {
		if r := Run(Options{Seed: c.seed}); r.Err != nil {
			t.Errorf("seed %d (%s): %v\n%s", c.seed, c.was, r.Err, Replay(c.seed))
		}
	}
}

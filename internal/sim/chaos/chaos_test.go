package chaos

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/internal/sim/seeds"
	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/runtime/membership"
)

// TestRandomRuns makes 200 random runs, each twice. It uses the first seeds whose runs are cheap.
func TestRandomRuns(t *testing.T) {
	seeds := 200
	if invariant.Race {
		seeds = 50
	}
	totals := Sweep{Seeds: seeds, Twice: 1, Cheap: true, Done: func(r Result) {
		if r.Err != nil {
			t.Errorf("seed %d: %v\n%s", r.Seed, r.Err, Replay(r.Seed, false))
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

// TestFoundSeeds runs seeds that once failed, and has the cause of each. A run changes with the
// cores, so most of these bugs also have a transcript in runtime/membership.
func TestFoundSeeds(t *testing.T) {
	for _, c := range []struct {
		seed uint64
		was  string
	}{
		{1158, "in a large cluster nobody asked whom an accusing member that does not watch it holds unreachable"},
		{1118, "the majority read what the minority had held against it, and stopped"},
		{1196, "one age from two leaders, of whom one was downed and removed in one step"},
		{3926, "the majority read what the minority had held against it, each found itself too broken to stay, and stopped"},
		{7412, "ways broke one after another, and the majority took those who were well for the broken ones"},
		{6769, "nobody knew a weakly-up member when the side that had admitted it was gone"},
		{3009, "fenced on evidence of Gone from before the member came back"},
		{3004377, "the silence that one observer reported counted as time without a subscription, which another reported"},
		{7002127, "a joiner whose member died at once was never asked for its state, because the others' had changed more often"},
		{7008985, "the smaller side of a large cluster counted members that it could not hear, of which no observer said so yet, and downed two"},
		{308342, "nobody heard the last message of a leader that had downed all, so leader after leader stopped alone"},
		{303311, "the judge did not know that of two equally large clusters the one with the later founder gives way"},
		{7005129, "one side did not count a member that it alone knew to be Exiting, and the other did"},
		{8301974, "the smaller side, which had the lease, fenced the larger by counting a member that had come Up after the split"},
		{8501930, "the only voter had died, and was not even fenced after an operator had downed it"},
		{8500581, "accusations of members that had stopped left no collector of votes, so the majority did not know that it heard itself"},
	} {
		if r := Run(Options{Seed: c.seed}); r.Err != nil {
			t.Errorf("seed %d (%s): %v\n%s", c.seed, c.was, r.Err, Replay(c.seed, false))
		}
	}
}

// TestMendedWhenJudged runs splits that end at about the time when they are judged. The accusations
// of both sides then meet. No member on the side with the majority may be downed because of them.
func TestMendedWhenJudged(t *testing.T) {
	for _, seed := range []uint64{333, 720, 761, 998, 1063, 1084} {
		if r := Run(Options{Seed: seed, change: func(p *plan) { mendWhenJudged(p, seed) }}); r.Err != nil {
			t.Errorf("seed %d: %v", seed, r.Err)
		}
	}
}

// mendWhenJudged makes the plan a single split that ends about when the split is judged.
func mendWhenJudged(p *plan, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x3e2d))
	p.clean, p.racks = true, r.IntN(4) > 0
	p.nodes = 5 + r.IntN(8)
	p.most = p.nodes + 2
	p.world.Servers = max(p.world.Servers, 2)
	p.world.RouteTimeout = milliseconds(r, 500, 4000)
	c := &p.config
	c.DowningRole, c.QuorumSize, c.AutoDownAfter, c.KeepOldestAlone = "", 0, 0, false
	c.Downing, c.StableAfter = broker, 0
	judged := pick(r, 5*time.Second, 6*time.Second, 7*time.Second, 15*time.Second)
	if r.IntN(4) == 0 {
		c.Downing, c.StableAfter = membership.DowningKeepMajority, milliseconds(r, 5000, 8000)
		judged = c.StableAfter + pick(r, 0, time.Second, 2*time.Second)
	}
	if r.IntN(2) == 0 {
		c.SmallCluster = 1 + r.IntN(4)
	}
	p.lasts = judged + pick(r, 0, p.world.RouteTimeout) + milliseconds(r, 0, 2000) - time.Second
}

// TestTableSeeds: random clusters whose members agree by a table return to one view after the
// faults. They break no invariant on the way: see sim.World.Err.
func TestTableSeeds(t *testing.T) {
	all, one := seeds.Run(t, 40, func(seed uint64, trace func(string)) sim.Result[Counts] {
		r := Run(Options{Seed: seed, Table: true, Trace: trace})
		return sim.Result[Counts]{Err: r.Err, Hash: r.Hash, Counts: r.Counts, Settled: r.Settled}
	})
	if !one {
		seeds.Want(t, all, "Ups", "Downs", "Removals", "Leaves", "SelfDowned", "JoinFailed", "Unreachable")
	}
}

// TestTableFoundSeeds is TestTableSeeds for seeds that found faults.
func TestTableFoundSeeds(t *testing.T) {
	for seed, fault := range map[uint64]string{
		3301534: "after the death of all members, a cluster with several servers never came back",
		7000358: "a member was fenced that had got a proof by another connection after the broker had missed it",
	} {
		if err := Run(Options{Seed: seed, Table: true}).Err; err != nil {
			t.Errorf("seed %d (%s): %v", seed, fault, err)
		}
	}
}

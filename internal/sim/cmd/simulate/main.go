// Command simulate lets things happen to clusters in virtual time and prints the
// outcome: see internal/sim.
//
//	go run ./internal/sim/cmd/simulate -scenario crash -nodes 1000 -seed 7
//	go run ./internal/sim/cmd/simulate -scenario random -seeds 10000
//	go run ./internal/sim/cmd/simulate -scenario all -seed 7
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/sim/chaos"
	"github.com/shardgen/shardgen/internal/sim/scenario"
	"github.com/shardgen/shardgen/runtime/membership"
)

const random, everything = "random", "all"

type flags struct {
	scenario      string
	nodes         int
	seed          uint64
	seeds, twice  int
	within        time.Duration
	detection     string
	membership    string
	trace, events bool
	profile       string
}

func main() {
	var f flags
	flag.StringVar(&f.scenario, "scenario", "crash", "what happens; random, for random runs; or all, for the table of internal/sim/README.md")
	flag.IntVar(&f.nodes, "nodes", 0, "size of the cluster (0: 1000); of the table: of the largest")
	flag.Uint64Var(&f.seed, "seed", 1, "seed of everything that is left to chance; of several the first")
	flag.StringVar(&f.detection, "detection", membership.DetectionManyEdges.String(), "of a scenario: many edges, or single observer")
	flag.StringVar(&f.membership, "membership", "gossip", "how the members agree: gossip, or table")
	flag.IntVar(&f.seeds, "seeds", 1, "how many random runs to make")
	flag.IntVar(&f.twice, "twice", 20, "every how many random runs one is made twice, and the traces compared (0: none)")
	flag.DurationVar(&f.within, "within", 0, "begin no further random run after this time (0: make all)")
	flag.BoolVar(&f.trace, "trace", false, "print everything that happens")
	flag.BoolVar(&f.events, "events", false, "print what is done to the cluster and what its members say, without messages")
	flag.StringVar(&f.profile, "cpuprofile", "", "write a CPU profile to this file")
	flag.Parse()
	if err := f.unused(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err := f.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// unused returns an error that names a flag without a meaning for this run.
func (f *flags) unused() (err error) {
	means := func(name string) bool {
		switch name {
		case "nodes":
			return f.scenario != random
		case "detection":
			return f.scenario != random && f.scenario != everything
		case "seeds", "twice", "within":
			return f.scenario == random
		case "trace", "events":
			return f.scenario != everything && f.seeds == 1
		case "membership":
			return f.scenario != everything
		}
		return true
	}
	flag.Visit(func(g *flag.Flag) {
		if !means(g.Name) {
			err = fmt.Errorf("simulate: -%s has no meaning for -scenario %s with %d seeds", g.Name, f.scenario, f.seeds)
		}
	})
	return err
}

func (f *flags) run() (err error) {
	if f.profile != "" {
		file, err := os.Create(f.profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	// Worlds have little live memory and make much garbage.
	debug.SetGCPercent(400)
	if f.membership != "gossip" && f.membership != "table" {
		return fmt.Errorf("simulate: membership %q: want gossip or table", f.membership)
	}
	byTable := f.membership == "table"
	switch {
	case f.scenario == random && f.seeds > 1:
		return many(os.Stdout, chaos.Sweep{First: f.seed, Seeds: f.seeds, Table: byTable, Twice: f.twice}, f.within)
	case f.scenario == random:
		return one(os.Stdout, chaos.Options{Seed: f.seed, Table: byTable, Trace: f.tell()})
	case f.scenario == everything:
		return table(f.seed, f.nodes)
	}
	return f.simulate(byTable)
}

func (f *flags) tell() func(string) {
	switch {
	case f.trace:
		return func(line string) { fmt.Println(line) }
	case f.events:
		return func(line string) {
			if strings.Contains(line, " -- ") || strings.Contains(line, " == ") {
				fmt.Println(line)
			}
		}
	}
	return nil
}

func detectionOf(name string) (membership.Detection, error) {
	for _, d := range []membership.Detection{membership.DetectionManyEdges, membership.DetectionSingleObserver} {
		if name == d.String() {
			return d, nil
		}
	}
	return 0, fmt.Errorf("simulate: detection %q: want %q or %q", name, membership.DetectionManyEdges, membership.DetectionSingleObserver)
}

func (f *flags) simulate(byTable bool) error {
	s, err := scenario.Find(f.scenario)
	if err != nil {
		return err
	}
	detection, err := detectionOf(f.detection)
	if err != nil {
		return err
	}
	began := time.Now()
	r := s.Run(scenario.Options{Nodes: f.nodes, Seed: f.seed, Detection: detection, Table: byTable, Trace: f.tell()})
	if err := scenario.Print(os.Stdout, []scenario.Result{r}); err != nil {
		return err
	}
	if err := scenario.PrintKinds(os.Stdout, r); err != nil {
		return err
	}
	if byTable {
		fmt.Printf("table: %d reads, %d writes, %d conflicts, %d I-am-alives\n", r.TableStats.Reads, r.TableStats.Writes, r.TableStats.Conflicts, r.TableStats.Alive)
	}
	fmt.Printf("%v of virtual time in %v, %d steps, trace %016x\n", r.Virtual.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), r.Steps, r.Hash)
	return r.Err
}

func table(seed uint64, largest int) error {
	jobs := scenario.Table(seed, largest)
	results := make([]scenario.Result, len(jobs))
	var wg sync.WaitGroup
	// The largest cluster of each scenario comes last, so the jobs begin in reverse order.
	next := make(chan int, len(jobs))
	for i := range jobs {
		next <- len(jobs) - 1 - i
	}
	close(next)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				results[i] = jobs[i].Scenario.Run(jobs[i].Options)
				fmt.Fprintf(os.Stderr, "done: %s\n", results[i].Command())
			}
		})
	}
	wg.Wait()
	if err := scenario.Print(os.Stdout, results); err != nil {
		return err
	}
	var broken []error
	for _, r := range results {
		if r.Err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", r.Command(), r.Err))
		}
	}
	return errors.Join(broken...)
}

const maxFailures = 10

func one(w io.Writer, o chaos.Options) error {
	began := time.Now()
	r := chaos.Run(o)
	fmt.Fprintf(w, "seed %d: %d processes, %v of virtual time in %v, %d steps, one view after %v, trace %016x\n",
		o.Seed, r.Nodes, r.Virtual.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), r.Steps, r.Settled.Round(time.Millisecond), r.Hash)
	return r.Err
}

func many(w io.Writer, sweep chaos.Sweep, within time.Duration) error {
	began := time.Now()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if within > 0 {
		defer time.AfterFunc(within, stop).Stop()
	}
	failed := 0
	slowest := chaos.Result{}
	sweep.Done = func(r chaos.Result) {
		if r.Err == nil && r.Settled > slowest.Settled {
			slowest = r
		}
		if r.Err == nil {
			return
		}
		fmt.Fprintf(w, "seed %d: %v\n  %s\n", r.Seed, r.Err, chaos.Replay(r.Seed, sweep.Table))
		if failed++; failed == maxFailures {
			stop()
		}
	}
	totals := sweep.Run(ctx)
	c := totals.Counts
	fmt.Fprintf(w, "%d runs in %v, %d of them twice: %d failed\n", totals.Runs, time.Since(began).Round(time.Second), totals.Twice, totals.Failed)
	fmt.Fprintf(w, "%d processes, %d steps; seen by members: %d up, %d unreachable, %d downed, %d fenced, %d removed, %d leaving\n",
		totals.Nodes, totals.Steps, c.Ups, c.Unreachable, c.Downs, c.Fenced, c.Removals, c.Leaves)
	fmt.Fprintf(w, "%d stopped themselves, %d of them to rejoin; %d could not join; slowest to settle: seed %d after %v\n",
		c.SelfDowned, c.Rejoins, c.JoinFailed, slowest.Seed, slowest.Settled.Round(100*time.Millisecond))
	if totals.Failed > 0 {
		return fmt.Errorf("simulate: %d of %d seeds failed", totals.Failed, totals.Runs)
	}
	return nil
}

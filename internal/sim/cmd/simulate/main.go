// Command simulate lets things happen to clusters in virtual time and prints what
// came of it: see internal/sim.
//
//	go run ./internal/sim/cmd/simulate -scenario crash -nodes 1000 -seed 7
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"github.com/shardgen/shardgen/internal/sim/scenario"
)

func main() {
	var (
		name    = flag.String("scenario", "crash", "what happens")
		nodes   = flag.Int("nodes", 0, "size of the cluster (0: the scenario's own)")
		seed    = flag.Uint64("seed", 1, "seed of everything that is left to chance")
		trace   = flag.Bool("trace", false, "print everything that happens")
		profile = flag.String("cpuprofile", "", "write a CPU profile to this file")
	)
	flag.Parse()
	if err := simulate(*name, *nodes, *seed, *trace, *profile); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func simulate(name string, nodes int, seed uint64, trace bool, profile string) error {
	s, err := scenario.Find(name)
	if err != nil {
		return err
	}
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	o := scenario.Options{Nodes: nodes, Seed: seed}
	if trace {
		o.Trace = func(line string) { fmt.Println(line) }
	}
	began := time.Now()
	r := s.Run(o)
	if err := scenario.Print(os.Stdout, []scenario.Result{r}); err != nil {
		return err
	}
	if err := scenario.PrintKinds(os.Stdout, r); err != nil {
		return err
	}
	fmt.Printf("%v of virtual time in %v, %d steps, trace %016x\n", r.Virtual.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), r.Steps, r.Hash)
	return r.Err
}

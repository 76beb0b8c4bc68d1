// Command mutate tests the tests: it makes small changes (mutants) to the state machines and their
// drivers, at random by a seed, and reports which mutants neither tests nor simulations notice.
//
//	go run ./internal/sim/cmd/mutate -n 50 -seed 1
//
// Run it in the module's root. The working tree does not change, because the compiler gets a mutant
// as an overlay. A mutant that does not compile is replaced by another one. The exit status is 1 if
// a mutant survives.
package main

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

// suites maps each mutated folder to the tests that must notice a mutant, in order. A package
// without tests has its driver's tests.
var suites = map[string][]suite{
	"internal/core/durable": {{pkg: "."}, {pkg: "./internal/sim/durable"}, {pkg: "./internal/driver/durablehost"}, {pkg: "./runtime", run: "Durable|List"}},
	"internal/core/membership/table": {
		{pkg: "."},
		{pkg: "./internal/sim", run: "Table"},
		{pkg: "./internal/sim/chaos", run: "TestTableSeeds"},
		{pkg: "./internal/sim/sharding", run: "TestShardingByTable"},
	},
	"internal/core/region":        {{pkg: "."}, {pkg: "./internal/sim/sharding", run: "TestSharding|TestMove"}, {pkg: "./runtime"}},
	"internal/core/stream":        {{pkg: "."}, {pkg: "./internal/sim/sharding", run: "TestSharding"}, {pkg: "./runtime"}},
	"runtime/coordinator":         {{pkg: "."}, {pkg: "./internal/sim/sharding", run: "TestSharding"}, {pkg: "./runtime"}},
	"runtime/singleton":           {{pkg: "."}, {pkg: "./internal/sim/singleton"}, {pkg: "./runtime", run: "Singleton"}},
	"internal/driver/shardhost":   {{pkg: "."}, {pkg: "./internal/sim/sharding", run: "TestSharding|TestMove"}, {pkg: "./runtime"}},
	"internal/driver/routing":     {{pkg: "."}, {pkg: "./internal/sim/sharding", run: "TestSharding"}, {pkg: "./runtime"}},
	"internal/driver/control":     {{pkg: "."}, {pkg: "./internal/sim/sharding", run: "TestSharding|TestMove"}, {pkg: "./runtime"}},
	"internal/driver/calls":       {{pkg: "."}, {pkg: "./internal/sim/sharding", run: "TestSharding|TestMove"}, {pkg: "./runtime"}},
	"internal/driver/peers":       {{pkg: "."}, {pkg: "./internal/sim/sharding", run: "TestSharding"}, {pkg: "./runtime"}},
	"internal/driver/runner":      {{pkg: "."}, {pkg: "./runtime"}},
	"internal/driver/durablehost": {{pkg: "."}, {pkg: "./runtime", run: "Durable"}, {pkg: "./internal/sim/durable"}},
	"internal/driver/singlehost":  {{pkg: "."}, {pkg: "./runtime", run: "Singleton"}, {pkg: "./internal/sim/singleton"}, {pkg: "./runtime"}},
	"internal/driver/remembering": {{pkg: "./runtime", run: "Remember"}, {pkg: "./runtime"}},
}

type suite struct{ pkg, run string }

func main() {
	n := flag.Int("n", 50, "how many mutants to try")
	from := flag.Int("from", 0, "position in the draw of the first mutant to try, so that a draw can be run in parts")
	seed := flag.Uint64("seed", 1, "seed of the draw")
	only := flag.String("only", "", "mutate only the packages in these folders, separated by commas")
	list := flag.Bool("list", false, "print the mutants and do not run them")
	own := flag.Bool("own", false, "run only the nearest tests of each package, mostly its own")
	limit := flag.Duration("timeout", 10*time.Minute, "of each suite; one that takes longer has noticed")
	flag.Parse()
	survivors, err := run(*n, *from, *seed, *only, *list, *own, *limit)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || survivors > 0 {
		os.Exit(1)
	}
}

func run(n, from int, seed uint64, only string, list, own bool, limit time.Duration) (survivors int, err error) {
	dirs, err := packages(only)
	if err != nil {
		return 0, err
	}
	var all []mutant
	for _, dir := range dirs {
		found, err := mutantsOf(dir)
		if err != nil {
			return 0, err
		}
		all = append(all, found...)
	}
	chance := rand.New(rand.NewPCG(seed, 0))
	chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tried := 0
	for i := from; i >= 0 && i < len(all) && tried < n; i++ {
		m := all[i]
		if list {
			tried++
			fmt.Printf("%d %s\n", i, m)
			continue
		}
		began := time.Now()
		tests := suites[m.dir]
		if own {
			tests = tests[:1]
		}
		v, err := m.try(tests, limit)
		if err != nil {
			return survivors, err
		}
		if v.fate == invalid {
			continue
		}
		tried++
		fmt.Printf("%-8s %3d %s: %s (%v)\n", v.fate, i, m, v.by, time.Since(began).Round(time.Second))
		if v.fate == survived {
			survivors++
		}
	}
	fmt.Printf("%d of %d mutants survived, of %d possible\n", survivors, tried, len(all))
	return survivors, nil
}

func packages(only string) (dirs []string, err error) {
	dirs = slices.Sorted(maps.Keys(suites))
	if only != "" {
		wanted := strings.Split(only, ",")
		dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !slices.Contains(wanted, dir) })
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("-only %q: no folder of this name is mutated", only)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("%w (run it from the module's root)", err)
		}
	}
	return dirs, nil
}

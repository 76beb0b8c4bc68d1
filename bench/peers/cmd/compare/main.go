// Command compare measures this project beside code written by hand and beside other projects, and
// prints one table.
//
//	go run -C bench/peers ./cmd/compare [-rounds 3] [-time 600ms] [-only lone,idle]
//
// Each cell runs in processes of its own, which are started for it: one for a row in one process, a
// host and a caller for a remote one, three members for a cluster. The contestants of a row run in
// turn, round by round. A ratio is the median of the rounds' ratios, with the least and the
// greatest; above 1× shardgen is better, also in a row whose lower figure is better.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
)

func main() {
	rounds := flag.Int("rounds", 3, "rounds of each row")
	d := flag.Duration("time", 600*time.Millisecond, "time of a cell in a round")
	only := flag.String("only", "", "groups of rows to measure, separated by commas: "+strings.Join(names(), ", "))
	var s setup
	role := flag.String("role", "", "of a child process; not for people")
	name := flag.String("contestant", "", "of a child process")
	ports := flag.String("ports", "", "of a child process")
	flag.StringVar(&s.url, "url", "", "the broker, of a child process")
	flag.StringVar(&s.address, "address", "", "the host, of a child process")
	flag.StringVar(&s.cluster, "cluster", "", "of a child process")
	flag.IntVar(&s.number, "number", 0, "of a child process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	wanted, err := choose(*only)
	switch {
	case err != nil:
	case *role == "":
		err = compare(ctx, wanted, *rounds, *d)
	default:
		for p := range strings.SplitSeq(*ports, ",") {
			n, _ := strconv.Atoi(p) // 0 without ports
			s.ports = append(s.ports, n)
		}
		err = serve(ctx, *role, s, wanted[0], *name, *d)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", strings.TrimSpace("compare "+*role+" "+*name), err)
		os.Exit(1)
	}
}

func names() (all []string) {
	for _, g := range groups() {
		all = append(all, g.name)
	}
	return all
}

func choose(only string) (chosen []group, err error) {
	all := groups()
	if only == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(only, ",") {
		i := slices.Index(names(), name)
		if i < 0 {
			return nil, fmt.Errorf("-only: no group %q; the groups are %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func compare(ctx context.Context, wanted []group, rounds int, d time.Duration) error {
	folder, err := os.MkdirTemp("", "shardgen-compare-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	server, err := natsproc.Run("-js", "-sd", filepath.Join(folder, "store"))
	if err != nil {
		return err
	}
	defer func() { _ = server.Kill() }()
	begin := time.Now()
	p := &parent{url: server.URL(), time: d}
	tables := make([]results, len(wanted))
	for round := range rounds {
		for i, g := range wanted {
			if tables[i] == nil {
				tables[i] = results{}
			}
			for _, name := range g.contestants() {
				r := p.measure(ctx, g, name, round)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				tables[i][name] = append(tables[i][name], r)
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s (%.0f s)\n", round+1, rounds, g.name, time.Since(begin).Seconds())
		}
	}
	fmt.Printf("%s, %d processors, %d rounds of %v, %.0f s in all; %s\n\n", runtime.Version(), runtime.GOMAXPROCS(0), rounds, d, time.Since(begin).Seconds(), versions())
	printTable(os.Stdout, wanted, tables)
	return nil
}

func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "built without versions"
	}
	var all []string
	for _, m := range info.Deps {
		for _, want := range []string{"protoactor-go", "google.golang.org/grpc", "nats.go", "nats-server"} {
			if strings.Contains(m.Path, want) {
				all = append(all, m.Path+" "+m.Version)
			}
		}
	}
	return strings.Join(all, ", ")
}

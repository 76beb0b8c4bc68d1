// Command table measures this project beside code by hand, in one run and in its own processes, and
// prints the tables of bench/README.md.
//
//	go run -C bench ./cmd/table [-rounds 5] [-time 1s] [-entities 1000000] [-only remote]
//
// Contestants of a row run in turn, round by round: a ratio is the median of the ratios of single
// rounds, which a busy machine distorts least. Above 1× shardgen is better, also in a row whose
// lower figure is better. It takes some minutes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
)

type settings struct {
	rounds   int
	time     time.Duration
	entities int
	only     string
	profile  string
	match    string
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 5, "rounds of each row")
	flag.DurationVar(&s.time, "time", time.Second, "time of one contestant in one round")
	flag.IntVar(&s.entities, "entities", 1_000_000, "idle entities whose memory and passivation are measured")
	flag.StringVar(&s.only, "only", "", "sections to run, separated by commas: local, memory, resting, remote, cluster, forming, durable, durable-many, durable-killed, durable-moves, streams, viewers")
	flag.StringVar(&s.profile, "profile", "", "folder for a processor profile of this process in each contestant's rounds of the durable section")
	flag.StringVar(&s.match, "match", "", "of the durable section, only the cases whose first row has this text")
	role := flag.String("role", "", "of a child process; not for people")
	url := flag.String("url", "", "the broker, of a child process")
	cluster := flag.String("cluster", "", "of a child process")
	name := flag.String("name", "", "of a child process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *role != "" {
		err = serve(ctx, *role, *url, *cluster, *name)
	} else {
		err = table(ctx, s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func table(ctx context.Context, s settings) error {
	server, err := natsproc.Run()
	if err != nil {
		return err
	}
	defer func() { _ = server.Kill() }()
	fmt.Printf("%s, %d processors, %d rounds of %v\n\n", runtime.Version(), runtime.GOMAXPROCS(0), s.rounds, s.time)
	fmt.Println("| case | shardgen | beside it | wanted |\n| --- | --- | --- | --- |")
	sections := []struct {
		name string
		run  func(context.Context, settings, string) error
	}{{"local", local}, {"memory", memory}, {"resting", resting}, {"remote", remote}, {"cluster", clustered}, {"forming", forming}, {"durable", durable}, {"durable-many", durableMany}, {"durable-killed", durableKilled}, {"durable-moves", durableMoves}, {"streams", streams}, {"viewers", viewed}}
	for _, sec := range sections {
		if s.only != "" && !strings.Contains(","+s.only+",", ","+sec.name+",") {
			continue
		}
		if err := sec.run(ctx, s, server.URL()); err != nil {
			return fmt.Errorf("%s: %w", sec.name, err)
		}
	}
	return nil
}

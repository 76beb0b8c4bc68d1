// Command onecall makes remote calls, one after another, from a client to an entity of a node
// over a real NATS server; both are in its own process. It makes them in rounds. Built with
// coverage counters and run with GOCOVERDIR, it leaves the counts of each round's calls in a
// folder of their own there, from which internal/arch learns which functions a remote call
// goes through.
//
//	go build -cover -covermode=atomic -coverpkg=./... -o onecall ./internal/e2e/onecall
//	GOCOVERDIR=counts ./onecall 20 50 # rounds, calls of a round
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/fixture"
	"github.com/shardgen/shardgen/internal/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

func main() {
	var rounds, calls int
	_, err := fmt.Sscan(strings.Join(os.Args[1:], " "), &rounds, &calls)
	if err == nil {
		err = run(rounds, calls)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "onecall:", err)
		os.Exit(1)
	}
}

func run(rounds, calls int) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	server, err := natsproc.Run()
	if err != nil {
		return err
	}
	defer func() { _ = server.Kill() }()
	host := shard.New(shard.Config{Cluster: "onecall", Name: "host", Transport: natstransport.New(server.URL())})
	if err := fixture.HostCoarse(host, func() *fixture.Coarse { return new(fixture.Coarse) }); err != nil {
		return err
	}
	if err := host.Start(ctx); err != nil {
		return err
	}
	caller, err := shard.Dial(ctx, shard.Config{Cluster: "onecall", Name: "caller", Transport: natstransport.New(server.URL())})
	if err != nil {
		return err
	}
	client := fixture.NewCoarseClient(caller)
	call := func() error {
		_, err := client.Ref("one").Echo(ctx, []byte("ping"))
		return err
	}
	if err := call(); err != nil { // the first call asks for the shard's home
		return err
	}
	for round := range rounds {
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		for range calls {
			if err := call(); err != nil {
				return err
			}
		}
		if err := leave(filepath.Join(os.Getenv("GOCOVERDIR"), strconv.Itoa(round))); err != nil {
			return err
		}
	}
	return nil
}

// leave writes the counts since they were cleared, and the names of what they count.
func leave(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := coverage.WriteCountersDir(dir); err != nil {
		return err
	}
	return coverage.WriteMetaDir(dir)
}

// Command onecall makes remote calls, one after another, from a client to an entity of a node
// over a real NATS server; both are in its own process. Built with coverage counters and run
// with GOCOVERDIR, it leaves the counts of exactly those calls there, from which internal/arch
// learns which functions a remote call goes through.
//
//	go build -cover -covermode=atomic -coverpkg=./... -o onecall ./internal/e2e/onecall
//	GOCOVERDIR=counts ./onecall 5000
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/coverage"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/internal/fixture"
	"github.com/shardgen/shardgen/internal/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

func main() {
	calls, err := strconv.Atoi(os.Args[len(os.Args)-1])
	if err == nil {
		err = run(calls)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "onecall:", err)
		os.Exit(1)
	}
}

func run(calls int) (err error) {
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
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	for range calls {
		if err := call(); err != nil {
			return err
		}
	}
	if err := coverage.WriteCountersDir(os.Getenv("GOCOVERDIR")); err != nil {
		return err
	}
	return coverage.ClearCounters() // what follows is no part of a call
}

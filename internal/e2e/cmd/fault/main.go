// Command fault runs a fault on a cluster of real processes under load, against a
// real nats-server, and prints its costs.
//
//	fault -list
//	fault [flags] NAME
//	fault -membership table -servers 3 -replicas 3 table-half
//
// It exits with 0 if every figure is within the fault's limits, with 1 if a figure is not or the
// run failed, and with 2 if the arguments are wrong.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/shardgen/shardgen/internal/e2e/fault"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(fault.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

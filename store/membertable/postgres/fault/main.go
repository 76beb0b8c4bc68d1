// Command fault causes faults as internal/e2e/cmd/fault does, in clusters whose membership tables
// are in PostgreSQL:
//
//	fault [flags] -membership postgres://USER@HOST/DATABASE NAME
//
// Each node opens several connections to the database, so its max_connections must be some hundreds.
// The tests start a database of their own.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/shardgen/shardgen/internal/e2e/fault"
	"github.com/shardgen/shardgen/internal/e2e/node"
	"github.com/shardgen/shardgen/store/membertable/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	node.Tables["postgres"] = postgres.Connect
	os.Exit(fault.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

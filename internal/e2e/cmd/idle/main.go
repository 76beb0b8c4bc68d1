// Command idle measures the messages among nodes over a real nats-server while nobody calls them,
// for each node and second, by the kind of message.
//
//	idle [-nodes N] [-settle D] [-length D]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/idle"
	"github.com/shardgen/shardgen/internal/e2e/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if len(os.Args) > 1 && os.Args[1] == node.Command {
		os.Exit(node.Main(ctx, os.Args[2:], os.Stdin, os.Stdout))
	}
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "idle:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var o idle.Options
	flags := flag.NewFlagSet("idle", flag.ExitOnError)
	flags.IntVar(&o.Nodes, "nodes", 5, "`number` of nodes")
	flags.DurationVar(&o.Settle, "settle", 5*time.Second, "how long they are left alone before")
	flags.DurationVar(&o.Length, "length", 30*time.Second, "how long is listened")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.Nodes < 1 || o.Settle < 0 || o.Length <= 0 || flags.NArg() > 0 {
		return fmt.Errorf("want at least one node, a length of more than 0 and no arguments (-h tells the flags)")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "idle-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // left behind at worst
	o.Cluster.Program, o.Cluster.Dir = program, dir
	t, err := idle.Measure(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d idle nodes, %v; a node a second:\n\n", t.Nodes, t.Length.Round(time.Second))
	return t.Print(stdout)
}

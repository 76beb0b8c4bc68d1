// Command bank moves money between accounts while the processes that host them are killed.
//
//	bank [-transfers N] [-accounts N] [-kills N] [-v]
//
// It starts a NATS server with JetStream in a temporary folder, and four workers as separate
// processes. Again and again it kills one of them with SIGKILL and starts another. In the end it
// compares each account with the entries that were made in it, and prints as its last line
//
//	transfers=5000 lost=0 doubled=0 sum=kept
//
// Progress goes to standard error. The exit code is 1 if anything was lost or doubled.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/shardgen/shardgen/examples/bank/bank"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

const cluster = "bank"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bank:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 3 && args[0] == "worker" {
		return worker(ctx, args[1], args[2], stdin, stdout, stderr)
	}
	var d demo
	flags := flag.NewFlagSet("bank", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&d.transfers, "transfers", 5_000, "`number` of transfers, at least")
	flags.IntVar(&d.accounts, "accounts", 200, "`number` of accounts")
	flags.IntVar(&d.kills, "kills", 5, "how often a worker is killed")
	flags.BoolVar(&d.verbose, "v", false, "let the workers log")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bank-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := embedded.Start(embedded.Options{StoreDir: dir})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	d.url, d.stderr = server.ClientURL(), stderr
	result, err := d.run(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, result)
	if result.lost != 0 || result.doubled != 0 || result.sum != 0 {
		return errors.New("accounts differ from the entries made in them")
	}
	return nil
}

func worker(ctx context.Context, url, name string, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process: a read cannot be taken back
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	node, s, err := newNode(ctx, url, name, slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return err
	}
	defer s.Close()
	if err := node.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "up")
	select {
	case <-ctx.Done():
		return node.Close()
	case <-node.Done():
		return node.Err()
	}
}

func newNode(ctx context.Context, url, name string, log *slog.Logger) (*shard.Node, *natsstore.Store, error) {
	s, err := natsstore.Open(ctx, url, natsstore.Config{Name: "bank"})
	if err != nil {
		return nil, nil, err
	}
	node := shard.New(shard.Config{Cluster: cluster, Name: name, Transport: natstransport.New(url), Store: s, Logger: log})
	if err := bank.HostAccount(node, func() *bank.Account { return &bank.Account{} }); err != nil {
		s.Close()
		return nil, nil, err
	}
	return node, s, nil
}

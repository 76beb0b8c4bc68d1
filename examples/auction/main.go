// Command auction runs an auction house, and kills all of its processes.
//
//	auction [-seconds N] [-v]
//	auction -listen :8080
//
// It starts a NATS server with JetStream, three workers and an HTTP front as separate processes. Each
// is started again when it ends. Sellers open auctions that end seconds later, bidders bid through
// the front, and a payment service publishes payments to a stream, some of them twice. Meanwhile
// SIGKILL ends each worker, the front, the NATS server, and then all workers at once. In the end the
// command compares its requests with all entities and mails, and prints
//
//	auctions=92 bids=2210 payments=71 mails=2230 live=3055 repeated=102 seconds=24.6
//	books=balanced lost=0 doubled=0 late=0
//
// The exit code is 1 if the books are not balanced; lines on standard error say why. An auction is
// late if the mail of its end is in the stream more than 10 s after its deadline. The time without a
// NATS server or any worker does not count.
//
// With -listen it kills nobody, and serves the page until it is interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "auction:", err)
		os.Exit(1)
	}
}

// afterwards is the longest time that a run may take after the end of its load, until its books
// balance.
const afterwards = 90 * time.Second

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 4 && roles[args[0]] != nil {
		return child(ctx, args, stdin, stdout, stderr)
	}
	h := house{stderr: stderr}
	flags := flag.NewFlagSet("auction", flag.ContinueOnError)
	flags.SetOutput(stderr)
	seconds := flags.Int("seconds", 16, "`time` of the load, in seconds")
	flags.StringVar(&h.listen, "listen", "", "serve the page at this `address` until interrupted, without kills")
	flags.BoolVar(&h.verbose, "v", false, "let the processes log")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *seconds < 1 || flags.NArg() > 0 {
		return errors.New("want -seconds of at least 1, and no arguments")
	}
	h.load = time.Duration(*seconds) * time.Second
	dir, err := os.MkdirTemp("", "auction-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	began := time.Now()
	if h.listen != "" {
		return h.serve(ctx, dir)
	}
	limit := h.load + afterwards
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the run took longer than %v", limit))
	defer cancel()
	books, err := h.run(ctx, dir)
	if err != nil {
		return err
	}
	v := books.check()
	for _, w := range v.wrong[:min(len(v.wrong), 20)] {
		fmt.Fprintln(stderr, "wrong:", w)
	}
	fmt.Fprintf(stdout, "%v seconds=%.1f\n%v\n", books, time.Since(began).Seconds(), v)
	if len(v.wrong) > 0 {
		return fmt.Errorf("the books have %d faults (listed above)", len(v.wrong))
	}
	return nil
}

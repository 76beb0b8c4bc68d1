// Command thumbnails makes thumbnails of pictures while the processes that make them are killed.
//
//	thumbnails [-pictures N] [-callers N] [-kills N] [-v]
//
// It starts a NATS server with JetStream in a temporary folder, and three workers as separate
// processes, with albums and a pool of resizers. Callers add pictures to albums, which let the pool
// make the thumbnails. Again and again the command kills a worker with SIGKILL and starts another. It
// prints as its last line
//
//	thumbnails=1000 missing=0 failed=0 killed=3 resizers=2..4 slowest=2.1s seconds=11.8
//
// resizers is the smallest and the largest size of the pool that was seen. The pool grows when it
// is busy for 30 s, which takes more pictures. The exit code is 1 if a thumbnail is missing or a
// call has failed.
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

	"github.com/shardgen/shardgen/examples/thumbnails/album"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

const (
	cluster = "thumbnails"
	takes   = 20 * time.Millisecond // for a picture
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "thumbnails:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 3 && args[0] == "worker" {
		return worker(ctx, args[1], args[2], stdin, stdout, stderr)
	}
	var b burst
	flags := flag.NewFlagSet("thumbnails", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&b.pictures, "pictures", 1_000, "`number` of pictures")
	flags.IntVar(&b.callers, "callers", 8, "`number` of callers, each with an album")
	flags.IntVar(&b.kills, "kills", 3, "how often a worker is killed")
	flags.BoolVar(&b.verbose, "v", false, "let the workers log")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.callers < 1 || b.pictures < b.callers || b.kills < 0 {
		return errors.New("want at least 1 caller, and 1 picture for each")
	}
	dir, err := os.MkdirTemp("", "thumbnails-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := embedded.Start(embedded.Options{StoreDir: dir})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	ctx, cancel := context.WithTimeout(ctx, time.Minute+time.Duration(b.pictures)*takes)
	defer cancel()
	b.url, b.stderr = server.ClientURL(), stderr
	result, err := b.run(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, result)
	if result.missing+result.failed > 0 {
		return errors.New("some thumbnails were not made")
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
	s, err := natsstore.Open(ctx, url, natsstore.Config{Name: "albums"})
	if err != nil {
		return err
	}
	defer s.Close()
	node := shard.New(shard.Config{Cluster: cluster, Name: name, Transport: natstransport.New(url), Store: s, Logger: slog.New(slog.NewTextHandler(stderr, nil))})
	album.Host(node, takes)
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

// Command hostile attacks a cluster of three processes with the rights of an ordinary client, under
// the permissions that shardctl prints, and prints its cost for another client.
//
// It exits with 0 if every figure is within its limit, with 1 if a figure is not or the run failed,
// and with 2 if the arguments are wrong.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 4 && os.Args[1] == hostile.Command {
		if err := hostile.RunMember(ctx, os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	s := hostile.Siege{Log: os.Stderr}
	flag.IntVar(&s.Messages, "messages", 5_000_000, "`number` of messages of the attack")
	flag.IntVar(&s.Rate, "rate", 0, "messages a second (default: as many as the server takes)")
	flag.IntVar(&s.Callers, "callers", 16, "`number` of goroutines of the other client")
	flag.DurationVar(&s.Pause, "pause", 5*time.Millisecond, "between two calls of one of them")
	flag.DurationVar(&s.Quiet, "quiet", 5*time.Second, "how long is measured before the attack, after as long a start")
	flag.DurationVar(&s.Recovery, "recovery", 3*time.Minute, "within which the members' memory must be back")
	logs := flag.String("log", "", "`file` for the members' logs (default: none)")
	flag.Parse()
	if flag.NArg() > 0 || s.Messages < 1 || s.Callers < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(ctx, s, *logs); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s hostile.Siege, logs string) error {
	if logs == "" {
		logs = os.DevNull
	}
	f, err := os.OpenFile(logs, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	s.Log = f
	held, err := s.Run(ctx, os.Stdout)
	if err == nil && !held {
		err = fmt.Errorf("a figure is over its limit (marked MISS above)")
	}
	return err
}

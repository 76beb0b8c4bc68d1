// Package node is the worker process of the fault runs: one node that hosts the
// workload. It says what happens to it as JSON lines on standard output.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/witness"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// Command is the first argument of a program that is to be a node.
const Command = "node"

// What a node says of itself.
const (
	Up    = "up"    // it has joined
	Left  = "left"  // it has left in order
	Ended = "ended" // it ended otherwise
)

// An Event is one line of what a node says.
type Event struct {
	Event string `json:"event"`
	Node  string `json:"node"`
	Pid   int    `json:"pid"`
	Error string `json:"error,omitempty"`
}

// Options say how a node runs.
type Options struct {
	URL     string // of the NATS servers
	Cluster string
	Name    string
	Witness string // the file for the record of its calls, which must not exist
}

// Args is the command line of a node with these options.
func (o Options) Args() []string {
	return []string{Command, "-nats", o.URL, "-cluster", o.Cluster, "-name", o.Name, "-witness", o.Witness}
}

// Main runs a node until ctx ends, then leaves in order. When stdin closes, the
// process that started it is gone, and it ends at once. Main returns the exit
// code of the process.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) int {
	var o Options
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	flags.StringVar(&o.URL, "nats", "", "`URL` of the NATS servers")
	flags.StringVar(&o.Cluster, "cluster", "", "`name` of the cluster")
	flags.StringVar(&o.Name, "name", "", "`name` of the node")
	flags.StringVar(&o.Witness, "witness", "", "`file` for the record of calls that ran")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	go func() { // ends with the process: a read cannot be taken back
		_, _ = io.Copy(io.Discard, stdin)
		os.Exit(1)
	}()
	say := func(event string, err error) {
		e := Event{Event: event, Node: o.Name, Pid: os.Getpid()}
		if err != nil {
			e.Error = err.Error()
		}
		_ = json.NewEncoder(stdout).Encode(e) // nobody listens any more
	}
	if err := run(ctx, o, func() { say(Up, nil) }); err != nil {
		say(Ended, err)
		return 1
	}
	say(Left, nil)
	return 0
}

func run(ctx context.Context, o Options, up func()) (err error) {
	w, err := witness.Create(o.Witness)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	n := shard.New(shard.Config{Cluster: o.Cluster, Name: o.Name, Transport: natstransport.New(o.URL)})
	defer func() { _ = n.Close() }()
	if err := Host(n, w); err != nil {
		return err
	}
	if err := n.Start(ctx); err != nil {
		return err
	}
	up()
	select {
	case <-ctx.Done():
	case <-n.Done():
		return fmt.Errorf("node ended: %w", n.Err())
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return n.Shutdown(leave)
}

// Host makes n host the workload, with w as the witness of its calls.
func Host(n *shard.Node, w *witness.Writer) error {
	see := func(entity, sender string, seq uint64) {
		if err := w.Write(entity, sender, seq); err != nil {
			panic(err) // without a witness the run proves nothing
		}
	}
	tallies := workload.NewTallyClient(n)
	target := func(id string) workload.RelayTargets {
		return workload.RelayTargets{Ask: tallies.API(id), Tell: tallies.Tell(id)}
	}
	return errors.Join(
		workload.HostTally(n, func() *workload.Tally { return &workload.Tally{Node: n.Name(), Witness: see} }),
		workload.HostRelay(n, func() *workload.Relay { return &workload.Relay{Node: n.Name(), Tallies: target} }),
	)
}

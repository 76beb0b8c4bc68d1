package fault

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/shardgen/shardgen/internal/e2e/node"
)

const (
	exitOK    = 0
	exitMiss  = 1
	exitUsage = 2
)

// Main is the program of cmd/fault. It runs the fault named in args, or a node: the nodes of a
// fault are child processes that run the same program. It returns the exit code: 0 if every figure
// is within the fault's limits, 1 if a figure is not or the run failed, 2 if the arguments are
// wrong.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == node.Command {
		return node.Main(ctx, args[1:], os.Stdin, stdout)
	}

	var o Options
	flags := flag.NewFlagSet("fault", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, "usage: fault -list\n       fault [flags] NAME [flags]\n\nRuns a fault on real processes under load and prints what it cost.\n\n")
		flags.PrintDefaults()
	}
	list := flags.Bool("list", false, "name the faults and exit")
	timeout := flags.Duration("timeout", 0, "bound of the whole run (default: what the length, the rounds and the times of the fault need)")
	flags.IntVar(&o.Rounds, "rounds", 0, "`number` of rounds, of a rolling restart or of cuts (default: the fault's choice)")
	flags.StringVar(&o.Cluster.URL, "nats", "", "`URL` of NATS servers that run (default: a nats-server process of its own)")
	flags.IntVar(&o.Nodes, "nodes", 0, "`number` of nodes before the fault (default: the fault's choice, 3 or 5)")
	flags.DurationVar(&o.Length, "length", 0, "how long the fault lasts (default: the fault's choice)")
	flags.IntVar(&o.Times, "times", 0, "`number` of times that quiet nodes are struck (default: the fault's choice)")
	flags.IntVar(&o.Load.Entities, "entities", 0, "`number` of entities (default: the fault's choice, mostly 1000)")
	flags.IntVar(&o.Messages, "messages", 0, "`number` of messages of a stream before the fault, and as many come during it (default: 100000)")
	flags.IntVar(&o.Load.Rate, "rate", 0, "calls a second (default: the fault's choice, mostly 2000)")
	flags.IntVar(&o.Calls, "calls", 20_000, "`number` of calls, at least")
	flags.BoolVar(&o.Cluster.Direct, "direct", false, "all processes have direct lanes; on hosts of their own also TLS to the NATS servers")
	members := flags.String("membership", "gossip", "how members agree: gossip, table (on the NATS servers), or the `URL` of a table")
	flags.IntVar(&o.Cluster.Replicas, "replicas", 0, "`number` of servers that keep each stream of the store, and the table (default: the fault's choice, mostly 1)")
	flags.IntVar(&o.Cluster.Servers, "servers", 0, "`number` of NATS servers (default: the fault's choice)")
	flags.IntVar(&o.Victim, "victim", 0, "the node it happens to: 1 is the oldest (default: the fault's choice)")
	name, err := parse(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case *list && name == "":
		for _, f := range All() {
			fmt.Fprintf(stdout, "%-16s %s\n", f.Name, f.About)
		}
		return exitOK
	case name == "" || *list:
		flags.Usage()
		return exitUsage
	}
	switch *members {
	case "gossip":
	case "table":
		o.Cluster.Table = node.JetStream
	default:
		o.Cluster.Table = *members
	}
	f, err := ByName(name)
	if err == nil {
		err = o.Validate(f)
	}
	if err != nil {
		fmt.Fprintln(stderr, "fault:", err)
		return exitUsage
	}
	bound := cmp.Or(*timeout, o.Bound(f))
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("the run took longer than %v (raise -timeout?)", bound))
	defer cancel()
	o.Say = func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	return do(ctx, f, o, stdout, stderr)
}

func parse(flags *flag.FlagSet, args []string) (name string, err error) {
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
		return "", err
	}
	name = flags.Arg(0)
	if err := flags.Parse(flags.Args()[1:]); err != nil {
		return "", err
	}
	if flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
		fmt.Fprintln(flags.Output(), "fault:", err)
	}
	return name, err
}

// do runs the fault and returns the exit code. If the fault fails, it keeps the nodes' logs.
func do(ctx context.Context, f Fault, o Options, stdout, stderr io.Writer) int {
	program, err := os.Executable()
	if err != nil {
		fmt.Fprintln(stderr, "fault:", err)
		return exitMiss
	}
	dir, err := os.MkdirTemp("", "fault-"+f.Name+"-")
	if err != nil {
		fmt.Fprintln(stderr, "fault:", err)
		return exitMiss
	}
	o.Cluster.Program, o.Cluster.Dir = program, dir
	misses, err := rows(ctx, f, o, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "fault:", err)
	}
	if err != nil || misses > 0 {
		fmt.Fprintln(stderr, "logs are in", dir)
		return exitMiss
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(stderr, "fault:", err)
	}
	return exitOK
}

// rows runs the fault and prints its figures. misses is the number of figures over their limits.
func rows(ctx context.Context, f Fault, o Options, stdout io.Writer) (misses int, err error) {
	all, err := Do(ctx, f, o)
	for _, outcome := range all {
		misses += len(outcome.Missed())
		err = errors.Join(err, Print(stdout, outcome))
	}
	return misses, err
}

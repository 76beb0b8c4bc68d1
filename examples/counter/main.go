// Command counter counts in a cluster of real processes.
//
//	counter [-nats URL] [-cluster NAME] [-membership gossip|table] [-calls N] [-counters N] [-rate N]
//	counter worker [-nats URL] [-cluster NAME] [-name NAME] [-membership gossip|table] [-listen ADDR] [-advertise HOST] [-health ADDR] [-leave-delay TIME] [-min-members N] [-replicas N] [-v]
//	counter call [-nats URL] [-cluster NAME] [-name NAME] ID add N
//	counter call [-nats URL] [-cluster NAME] [-name NAME] ID get
//
// worker and call have further flags for TLS, NKeys and JWTs; see docs/security.md.
//
// Without a command it runs the demonstration. It starts a NATS server inside this process (or uses
// the one at -nats) and three workers as separate processes. It then makes typed calls to many
// counters. Meanwhile a fourth worker joins, one of the first three is killed with SIGKILL and
// replaced, and another leaves. Counters are durable: the server keeps them in JetStream, in a
// temporary folder unless -nats names a server. Finally it checks every counter and prints one line
// on standard output:
//
//	calls=20000 failed=0 wrong=0 moved=128 seconds=8.6
//
// Progress goes to standard error. The exit code is 0 if all went well, 1 if a call failed or a
// counter is wrong, and 2 if the command line is invalid.
//
// The entity is in package counter beside this one. worker.go hosts it, call.go calls it from
// outside the cluster, and the other files are the demonstration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const (
	exitOK    = 0
	exitWrong = 1
	exitUsage = 2
)

const (
	defaultURL     = "nats://127.0.0.1:4222"
	defaultCluster = "counter"
)

const usage = `usage: counter [flags]                  run everything, check it, print one line
       counter worker [flags]           run one worker until SIGTERM
       counter call [flags] ID add N    add N to a counter, print its total
       counter call [flags] ID get      print a counter's total
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	command := "demo"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	}
	var err error
	switch command {
	case "demo":
		err = runDemo(ctx, args, stdout, stderr)
	case "worker":
		err = runWorker(ctx, args, stdin, stdout, stderr)
	case "call":
		err = runCall(ctx, args, stdout, stderr)
	default:
		err = usageError(fmt.Sprintf("unknown command %q (want worker, call or none)", command))
	}
	var wrong usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "counter: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "counter: %s\n", oneLine(err))
	return exitWrong
}

type usageError string

// Error returns the text.
func (e usageError) Error() string { return string(e) }

// The ways in which workers agree on the members.
const (
	byGossip = "gossip"
	byTable  = "table" // in JetStream, beside the counters
)

func membershipFlag(flags *flag.FlagSet) *string {
	return flags.String("membership", byGossip, "how the workers agree on who is a member: gossip or table")
}

func checkMembership(by string) error {
	if by != byGossip && by != byTable {
		return usageError(fmt.Sprintf("-membership %s: want gossip or table", by))
	}
	return nil
}

func newFlags(command string, stderr io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // parse reports errors itself
	flags.Usage = func() {
		fmt.Fprint(stderr, usage, "\nflags of ", command, ":\n")
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		flags.SetOutput(io.Discard)
	}
	return flags
}

func parse(flags *flag.FlagSet, args []string, least, most int) error {
	usage := flags.Usage
	flags.Usage = func() {}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage()
		return err
	case err != nil:
		return usageError(err.Error() + " (counter -h prints the usage)")
	case flags.NArg() > most:
		return usageError(fmt.Sprintf("unexpected argument %q (counter -h prints the usage)", flags.Arg(most)))
	case flags.NArg() < least:
		return usageError("too few arguments (counter -h prints the usage)")
	}
	return nil
}

// oneLine joins the lines of joined errors.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Command shardgen writes the typed clients and the glue of annotated structs.
//
// A user's module names it as a tool and calls it from the package of the struct:
//
//	go get -tool github.com/shardgen/shardgen/cmd/shardgen
//
//	//go:generate go tool shardgen
//
//	//shard:entity
//	type Counter struct { … }
//
// It writes one file, shard_gen.go, into each package that has an entity.
//
//	shardgen [-check] [-tags list] [packages]
//
// Packages are patterns as of go list; without any it is the package in the
// working directory. It exits with 1 when the source has mistakes or, with
// -check, when a file is not up to date; with 2 when it was called wrongly.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/shardgen/shardgen/internal/gen"
	"github.com/shardgen/shardgen/internal/gen/load"
)

// Exit codes.
const (
	exitOK    = 0
	exitWrong = 1 // the source, a stale file, or the file system
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("shardgen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	check := flags.Bool("check", false, "write nothing; exit with 1 when a generated file is not up to date")
	tags := flags.String("tags", "", "build tags, comma-separated")
	version := flags.Bool("version", false, "print the version and exit")
	flags.Usage = func() {
		fmt.Fprint(stderr, "usage: shardgen [-check] [-tags list] [packages]\n\nWrites shard_gen.go into each package that has a //shard:entity or //shard:singleton struct.\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	if *version {
		fmt.Fprintln(stdout, "shardgen", buildVersion())
		return exitOK
	}
	outcome, err := gen.Run(ctx, gen.Options{
		Options: load.Options{Patterns: flags.Args(), Tags: *tags},
		Check:   *check,
	})
	if err != nil {
		fmt.Fprintln(stderr, "shardgen:", err)
		return exitWrong
	}
	return report(outcome, stderr)
}

// report prints what a run found. A run that went well is silent, as go generate
// is.
func report(o *gen.Outcome, stderr io.Writer) int {
	for _, d := range o.Diagnostics {
		fmt.Fprintln(stderr, d)
	}
	for _, path := range o.Stale {
		fmt.Fprintf(stderr, "%s: not up to date (run go generate)\n", path)
	}
	if len(o.Diagnostics)+len(o.Stale) > 0 {
		return exitWrong
	}
	return exitOK
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "(unknown)"
}

// Command shardgen generates typed clients, and the code that hosts entities, from annotated
// structs.
//
// A user's module requires it as a tool and runs it in the package of the struct:
//
//	go get -tool github.com/shardgen/shardgen/cmd/shardgen
//
//	//go:generate go tool shardgen
//
//	//shard:entity
//	type Counter struct { … }
//
// It writes shard_gen.go into each package that has an entity.
//
//	shardgen [-check] [-json] [-v] [-watch] [-tags list] [-version] [packages]
//
// Packages are patterns as for go list; the default is the package in the working directory. Beside
// the code it writes shard.lock, the contract: the number of each field on the wire. Commit both.
// The exit code is 1 if the source has mistakes or, with -check, if a file is not up to date, and 2
// if the arguments are wrong.
//
//	shardgen contract mv|rm|retype|reset|mend|proto …
//	                                              changes the contract, or prints it as .proto
//	shardgen breaking -against PATH|REVISION [./...]
//	                                              what programs of two contracts do not agree on
//	shardgen explain [SG102]                      what a diagnostic means
//	shardgen init [folder]                        writes a first entity
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"github.com/shardgen/shardgen/internal/gen"
	"github.com/shardgen/shardgen/internal/gen/load"
)

const (
	exitOK    = 0
	exitWrong = 1 // mistakes, a stale file, or a file system error
	exitUsage = 2
)

const watchEvery = 300 * time.Millisecond

// interruptGrace is how long a run may continue after an interrupt before the process exits.
const interruptGrace = time.Second

func main() {
	gen.Tune()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, func() { // code that does not look at ctx must also end
		time.Sleep(interruptGrace)
		fmt.Fprintln(os.Stderr, "shardgen: interrupted")
		os.Exit(exitWrong)
	})
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch rest := args[1:]; args[0] {
		case "contract":
			return runContract(rest, stdout, stderr)
		case "breaking":
			return runBreaking(ctx, rest, stdout, stderr)
		case "explain":
			return runExplain(rest, stdout, stderr)
		case "init":
			return runInit(rest, stdout, stderr)
		}
	}
	return generate(ctx, args, stdout, stderr)
}

const generateUsage = `usage: shardgen [-check] [-json] [-v] [-watch] [-tags list] [-version] [packages]
       shardgen contract|breaking|explain|init …

Writes shard_gen.go, and the contract shard.lock, into each package that has a
//shard:entity, //shard:singleton or //shard:pool struct.

`

func generate(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := newFlags("", generateUsage, stderr)
	check := flags.Bool("check", false, "write nothing; exit with 1 when a generated file is not up to date")
	asJSON := flags.Bool("json", false, "print mistakes to stdout for editors, one JSON object a line: file, line, column, severity, code, message, mend")
	verbose := flags.Bool("v", false, "print the packages, the files that are written, and the time")
	watch := flags.Bool("watch", false, "run again after each change in the module, until interrupted")
	tags := flags.String("tags", "", "build tags, comma-separated")
	version := flags.Bool("version", false, "print the version and exit")
	if code, done := parse(flags, args); done {
		return code
	}
	if *version {
		fmt.Fprintln(stdout, "shardgen", buildVersion())
		return exitOK
	}
	o := gen.Options{
		Options: load.Options{Patterns: flags.Args(), Tags: *tags},
		Check:   *check,
		// go generate sets GOFILE.
		Absolute: os.Getenv("GOFILE") != "",
	}
	r := &reporter{stdout: stdout, stderr: stderr, json: *asJSON, verbose: *verbose}
	if !*watch {
		begin := time.Now()
		outcome, err := gen.Run(ctx, o)
		return r.run(outcome, err, time.Since(begin))
	}
	if err := gen.Watch(ctx, o, watchEvery, func(o *gen.Outcome, err error, took time.Duration) { r.run(o, err, took) }); err != nil {
		r.failed(err)
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

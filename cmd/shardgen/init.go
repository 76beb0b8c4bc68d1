package main

import (
	"fmt"
	"io"
	"os"

	"github.com/shardgen/shardgen/internal/gen"
)

const initUsage = `usage: shardgen init [folder]

Writes a first entity into a folder of this module, "counter" without one.

`

func runInit(args []string, stdout, stderr io.Writer) int {
	flags := newFlags("init", initUsage, stderr)
	if code, done := parse(flags, args); done {
		return code
	}
	if flags.NArg() > 1 {
		flags.Usage()
		return exitUsage
	}
	dir := "counter"
	if flags.NArg() == 1 {
		dir = flags.Arg(0)
	}
	working, err := os.Getwd()
	if err != nil {
		return done(err, stderr)
	}
	path, err := gen.Init(working, dir)
	if err == nil {
		fmt.Fprintf(stdout, "wrote %s; next:\n\n\tgo get -tool github.com/shardgen/shardgen/cmd/shardgen    # unless go.mod has it as a tool\n\tgo generate ./...\n\tgo mod tidy\n", path)
	}
	return done(err, stderr)
}

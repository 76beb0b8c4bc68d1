// Command gen compiles the .proto files of one directory and writes their Go
// beside them, with protobuf's own generator and no protoc. It is a module of
// its own, so that the compiler is no dependency of shardgen's users.
//
//	go run -C internal/wire/gen . ..          write
//	go run -C internal/wire/gen . -check ..   exit 1 when a file is stale
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	check := flag.Bool("check", false, "write nothing; exit 1 if a generated file is missing, stale or left over")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: gen [-check] DIR")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string, check bool) error {
	want, err := generate(dir)
	if err != nil {
		return fmt.Errorf("generate: %s: %w", dir, err)
	}
	changes, err := compare(dir, want)
	if err != nil {
		return fmt.Errorf("compare: %s: %w", dir, err)
	}
	if check {
		if len(changes) == 0 {
			return nil
		}
		return fmt.Errorf("check: %s: %v differ from what the .proto files generate (run go generate ./internal/wire/...)", dir, changes)
	}
	return apply(dir, changes, want)
}

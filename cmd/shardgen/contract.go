package main

import (
	"fmt"
	"io"

	"github.com/shardgen/shardgen/internal/gen"
	"github.com/shardgen/shardgen/internal/gen/contract"
)

const contractUsage = `usage: shardgen contract [-dir folder] command

Changes the contract file shard.lock of a package. A path is Stock (a type, a
struct or an error), Stock.Reserve (a message), Stock.Left (a field),
Stock.Reserve.order (an argument or a result) or Color.Red (a constant).

	mv PATH NAME    rename it in Go; its name on the wire stays the same
	rm PATH         remove it for good; its number is never used again
	retype PATH TYPE
	                change its type to TYPE, which must read what the former type
	                wrote (of a constant: change its value to one never used)
	reset [-unstored] PATH
	                forget it and assign a new number; only for what no running
	                program knows. Refused for what records of a durable type
	                have, unless -unstored says that no store has such an entity
	mend [-released FILE]
	                after a merge or an edit by hand: keep the lines of both sides
	                and give new numbers to duplicates, except those in FILE
	proto [-package NAME]
	                print the contract as a .proto file, for other languages

`

func runContract(args []string, stdout, stderr io.Writer) int {
	flags := newFlags("contract", contractUsage, stderr)
	dir := flags.String("dir", ".", "the package's folder")
	if code, done := parse(flags, args); done {
		return code
	}
	command, rest := flags.Arg(0), flags.Args()
	if len(rest) > 0 {
		rest = rest[1:]
	}
	unstored := command == "reset" && len(rest) > 0 && rest[0] == "-unstored"
	if unstored {
		rest = rest[1:]
	}
	note := ""
	edits := map[string]struct {
		args int
		edit func(*contract.Contract) error
	}{
		"mv": {2, func(c *contract.Contract) error { return contract.Move(c, rest[0], rest[1]) }},
		"rm": {1, func(c *contract.Contract) error {
			note = contract.Kept(c, rest[0])
			return contract.Retire(c, rest[0])
		}},
		"retype": {2, func(c *contract.Contract) error { return contract.Retype(c, rest[0], rest[1]) }},
		"reset":  {1, func(c *contract.Contract) error { return contract.Reset(c, rest[0], unstored) }},
	}
	if e, ok := edits[command]; ok {
		if len(rest) != e.args {
			flags.Usage()
			return exitUsage
		}
		err := gen.Edit(*dir, e.edit)
		if err == nil && note != "" {
			fmt.Fprintln(stdout, note)
		}
		return done(err, stderr)
	}
	switch command {
	case "mend":
		return runMend(*dir, rest, stdout, stderr)
	case "proto":
		return runProto(*dir, rest, stdout, stderr)
	}
	flags.Usage()
	return exitUsage
}

func runMend(dir string, args []string, stdout, stderr io.Writer) int {
	flags := newFlags("contract mend", contractUsage, stderr)
	released := flags.String("released", "", "a contract file that running programs know, or its folder")
	if code, done := parse(flags, args); done {
		return code
	}
	note, err := gen.Mend(dir, *released)
	for _, line := range note {
		fmt.Fprintln(stdout, line)
	}
	return done(err, stderr)
}

func runProto(dir string, args []string, stdout, stderr io.Writer) int {
	flags := newFlags("contract proto", contractUsage, stderr)
	pkg := flags.String("package", "", "the protobuf package; without it the folder's name")
	if code, done := parse(flags, args); done {
		return code
	}
	text, err := gen.Proto(dir, *pkg)
	fmt.Fprint(stdout, text)
	return done(err, stderr)
}

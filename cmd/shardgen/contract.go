package main

import (
	"fmt"
	"io"

	"github.com/shardgen/shardgen/internal/gen"
	"github.com/shardgen/shardgen/internal/gen/contract"
)

const contractUsage = `usage: shardgen contract [-dir folder] command

Changes the contract file shard.lock of a package. A path is Stock (a kind, a
struct or an error), Stock.Reserve (a message), Stock.Left (a field),
Stock.Reserve.order (an argument or a result) or Color.Red (a constant).

	mv PATH NAME    it is called NAME now; on the wire it stays what it was
	rm PATH         it is gone for good; its number is never given to another
	retype PATH TYPE
	                its type is TYPE now, which reads what the former wrote
	                (of a constant: its value, which nothing has had)
	reset [-unstored] PATH
	                forget it, and number anew: for what no running program knows.
	                What records of a durable type have is refused, unless
	                -unstored says that no store has an entity of the type
	mend [-released FILE]
	                after a merge, or a change by hand: keep both sides, and give
	                doubled numbers anew, but not those that FILE has
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
	told := ""
	edits := map[string]struct {
		args int
		edit func(*contract.Contract) error
	}{
		"mv": {2, func(c *contract.Contract) error { return contract.Move(c, rest[0], rest[1]) }},
		"rm": {1, func(c *contract.Contract) error {
			told = contract.Kept(c, rest[0])
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
		if err == nil && told != "" {
			fmt.Fprintln(stdout, told)
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
	told, err := gen.Mend(dir, *released)
	for _, line := range told {
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

package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

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

const breakingUsage = `usage: shardgen breaking -against PATH|REVISION [folder | ./...]

Prints where running programs would not agree with programs of this folder's
contract. The running programs' contract is at PATH, a shard.lock or its folder,
or at a git REVISION of this repository, such as a tag. With ./... it is every
contract below the folder. It exits with 1 when there is anything, but
for new cases of interfaces (//shard:oneof): of them it says what becomes of them
in running programs.

`

func runBreaking(args []string, stdout, stderr io.Writer) int {
	flags := newFlags("breaking", breakingUsage, stderr)
	against := flags.String("against", "", "the contract that running programs have")
	if code, done := parse(flags, args); done {
		return code
	}
	if *against == "" || flags.NArg() > 1 {
		flags.Usage()
		return exitUsage
	}
	dir, all := ".", false
	if flags.NArg() == 1 {
		if dir, all = strings.CutSuffix(flags.Arg(0), "..."); all {
			dir = cmp.Or(strings.TrimSuffix(dir, "/"), ".")
		}
	}
	breaks, err := gen.Breaking(*against, dir, all)
	broken := false
	for _, b := range breaks {
		broken = broken || !b.Compatible
		if all {
			fmt.Fprint(stdout, b.Folder, ": ")
		}
		fmt.Fprintln(stdout, b.Break)
	}
	if code := done(err, stderr); code != exitOK {
		return code
	}
	if broken {
		return exitWrong
	}
	return exitOK
}

func runExplain(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		for _, code := range gen.Codes() {
			text, _ := gen.Explain(code)
			fmt.Fprintf(stdout, "%s  %s\n", code, text.Title)
		}
		return exitOK
	}
	for _, code := range args {
		text, ok := gen.Explain(code)
		if !ok {
			fmt.Fprintf(stderr, "shardgen: %s: no such code (shardgen explain lists them)\n", code)
			return exitUsage
		}
		fmt.Fprintf(stdout, "%s: %s\n\n%s\n", text.Code, text.Title, text.Text)
	}
	return exitOK
}

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
		fmt.Fprintf(stdout, "wrote %s; next:\n\n\tgo get -tool github.com/shardgen/shardgen/cmd/shardgen\n\tgo generate ./...\n\tgo mod tidy\n", path)
	}
	return done(err, stderr)
}

func newFlags(name, usage string, stderr io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet("shardgen "+name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	return flags
}

// done prints an error and makes an exit code of it.
func done(err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "shardgen:", err)
	return exitWrong
}

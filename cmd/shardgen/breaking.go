package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/shardgen/shardgen/internal/gen"
)

const breakingUsage = `usage: shardgen breaking -against PATH|REVISION [-tags list] [folder | ./...]

Prints where running programs would not agree with programs of this folder's
contract. The running programs' contract is at PATH, a shard.lock or its folder,
or at a git REVISION of this repository, such as a tag. With ./... it is every
contract below the folder. It exits with 1 when there is anything, but
for new cases of interfaces (//shard:oneof): of them it says what becomes of them
in running programs. It exits with 1, too, when the contract is not that of
the source beside it.

`

func runBreaking(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := newFlags("breaking", breakingUsage, stderr)
	against := flags.String("against", "", "the contract that running programs have")
	tags := flags.String("tags", "", "build tags, comma-separated")
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
	unadopted, err := gen.Unadopted(ctx, dir, *tags, all)
	if code := (&reporter{stdout: stdout, stderr: stderr}).run(&gen.Outcome{Diagnostics: unadopted}, err, 0); code != exitOK || broken {
		return exitWrong
	}
	return exitOK
}

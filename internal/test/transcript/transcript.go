// Package transcript tests a machine by transcripts that a person can read: files of commands and
// their output. Only tests import it.
//
// A file consists of blocks with an empty line between them. A block has commands, a line ----, and
// the output of the commands:
//
//	# A leader without convergence must not move a shard.
//	unreachable b
//	rebalance
//	----
//	refused: view not converged (b unreachable)
//
// A line that starts with # is a comment. With -update the tests rewrite the files with the
// machine's present output; read the difference before you keep it.
package transcript

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the transcripts in testdata anew")

// A Command carries out one command of a transcript, given as at least one word. It returns the
// command's output: either "", or lines that each end with a line break.
type Command func(words []string) string

// Run runs each file testdata/*.txt of the package under test as a subtest with the file's name.
// begin makes a machine for a file and returns the Command that runs the file's commands.
// Everything runs on the subtest's goroutine. If a block's output differs from the file, the
// subtest fails and prints both.
func Run(t *testing.T, begin func(t *testing.T) Command) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, differences := replay(string(text), begin(t))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for _, d := range differences {
				t.Errorf("%s: %s", file, d)
			}
			if len(differences) == 0 && got != string(text) {
				t.Errorf("%s: differs only in blank lines, line ends or ---- lines from what -update writes (run go test with -update)", file)
			}
		})
	}
}

// replay runs a transcript's commands. It returns the transcript with the new output, and describes
// the blocks that differ.
func replay(text string, run Command) (got string, differences []string) {
	var blocks []string
	for i, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		commands, want, _ := strings.Cut(block+"\n", "----\n")
		var printed strings.Builder
		for _, line := range strings.Split(commands, "\n") {
			if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(words[0], "#") {
				printed.WriteString(run(words))
			}
		}
		if printed.String() != want {
			differences = append(differences, fmt.Sprintf("block %d:\n%s---- got:\n%s---- want:\n%s", i+1, commands, &printed, want))
		}
		blocks = append(blocks, commands+"----\n"+printed.String())
	}
	return strings.Join(blocks, "\n"), differences
}

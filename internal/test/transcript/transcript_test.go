package transcript

import (
	"strings"
	"testing"
)

// TestRun runs testdata/echo.txt with a machine that repeats its input.
func TestRun(t *testing.T) {
	Run(t, func(*testing.T) Command { return newEcho() })
}

// newEcho returns a machine with two commands: "say WORD..." prints the words, and "again" prints
// the words of the last say.
func newEcho() Command {
	said := ""
	return func(words []string) string {
		if words[0] == "say" {
			said = strings.Join(words[1:], " ") + "\n"
		}
		return said
	}
}

func TestReplay(t *testing.T) {
	tests := []struct{ name, text, got, difference string }{
		{"as it is", "say a\n----\na\n\nagain\n----\na\n", "say a\n----\na\n\nagain\n----\na\n", ""},
		{"nothing printed yet", "say a\n", "say a\n----\na\n", "block 1:\nsay a\n---- got:\na\n---- want:\n"},
		{"printed something else", "again\n----\n\nsay b\nagain\n----\nb\n", "again\n----\n\nsay b\nagain\n----\nb\nb\n", "block 2:\nsay b\nagain\n---- got:\nb\nb\n---- want:\nb\n"},
		{"comments", "# why\n# how\nsay a\n----\na\n", "# why\n# how\nsay a\n----\na\n", ""},
	}
	for _, tt := range tests {
		got, differences := replay(tt.text, newEcho())
		if difference := strings.Join(differences, "|"); got != tt.got || difference != tt.difference {
			t.Errorf("%s: got %q and %q, want %q and %q", tt.name, got, difference, tt.got, tt.difference)
		}
	}
}

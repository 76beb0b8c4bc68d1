package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// retired has the words that the project does not use, each with the word to use instead
// (docs/glossary.md). Words that ordinary English needs, such as page and path, are not here.
var retired = []struct {
	word    *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\bgates?\b`), "barrier"},
	{regexp.MustCompile(`(?i)\btrails?\b`), "forwarding"},
	{regexp.MustCompile(`(?i)\bleftovers?\b`), "unacknowledged"},
	{regexp.MustCompile(`(?i)\bbatons?\b`), "run token"},
	{regexp.MustCompile(`(?i)\bledgers?\b`), "counters"},
	{regexp.MustCompile(`(?i)\bluggage\b`), "remembered ids"},
	{regexp.MustCompile(`(?i)\bmishaps?\b`), "failure"},
	{regexp.MustCompile(`(?i)\bfarewells?\b`), "drain"},
	{regexp.MustCompile(`(?i)\bsilences\b`), "departed peers"},
	{regexp.MustCompile(`(?i)\bkeepers?\b`), "replica"},
	{regexp.MustCompile(`(?i)\btangled?s?\b`), "indirectly connected"},
	{regexp.MustCompile(`(?i)\btells? (whether|what|who|where|why|how|when|if)\b`), "reports whether, says what (a tell is a one-way call)"},
	{regexp.MustCompile(`(?i)\btold (whether|what|who|where|why|how)\b`), "reported"},
	{regexp.MustCompile(`(?i)\bin vain\b`), "without success, timed out"},
	{regexp.MustCompile(`(?i)'s affair\b`), "controlled by"},
	{regexp.MustCompile(`(?i)\bto even (them|it|things) out\b`), "for rebalancing"},
	{regexp.MustCompile(`(?i)\blives? again\b`), "is activated again"},
	{regexp.MustCompile(`(?i)\bto life\b`), "activated"},
}

// held reports whether the comments and string literals of a file are checked for retired words.
// Generated code is not checked. Of tests only the package comment is.
func (f *sourceFile) held() bool { return !f.generated && !f.test }

// wordsAllowed is the file that says how many retired words each file may still have. If a file has
// fewer, the test fails until its number is lowered, so numbers only shrink.
const wordsAllowed = "testdata/words_allowed.txt"

// retiredWords counts the retired words of a text, by word.
func retiredWords(text string) map[string]int {
	found := map[string]int{}
	for _, r := range retired {
		for _, m := range r.word.FindAllString(text, -1) {
			found[fmt.Sprintf("%q (%s)", strings.ToLower(m), r.instead)]++
		}
	}
	return found
}

// words returns the file's comments and string literals, except import paths.
func (f *sourceFile) words() string {
	var text strings.Builder
	for _, group := range f.syntax.Comments {
		text.WriteString(group.Text() + "\n")
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				text.WriteString(n.Value + "\n")
			}
		}
		return true
	})
	return text.String()
}

// TestRetiredWords checks pages, comments and string literals for retired words.
func TestRetiredWords(t *testing.T) {
	allowed := readAllowed(t)
	texts := map[string]string{}
	for _, page := range pages(t) {
		b, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		texts[page] = string(b)
	}
	for _, f := range loadTree(t) {
		switch {
		case f.held() && f.path != "internal/arch/words_test.go":
			texts[f.path] = f.words()
		case f.syntax.Doc != nil && !f.generated:
			texts[f.path] = f.syntax.Doc.Text()
		}
	}
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		found := retiredWords(texts[path])
		n := 0
		for _, count := range found {
			n += count
		}
		switch may := allowed[path]; {
		case n > may:
			t.Errorf("%s: %d retired words, at most %d are allowed: %v", path, n, may, slices.Sorted(maps.Keys(found)))
		case n < may:
			t.Errorf("%s: %d retired words: lower its number in internal/arch/%s from %d", path, n, wordsAllowed, may)
		}
		delete(allowed, path)
	}
	for path := range allowed {
		t.Errorf("%s: no such file: remove it from internal/arch/%s", path, wordsAllowed)
	}
}

// readAllowed reads wordsAllowed: the allowed number of retired words, by path.
func readAllowed(t *testing.T) map[string]int {
	t.Helper()
	b, err := os.ReadFile(wordsAllowed)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]int{}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var path string
		var n int
		if _, err := fmt.Sscanf(line, "%s %d", &path, &n); err != nil {
			t.Fatalf("%s: %q: want a path and a number: %v", wordsAllowed, line, err)
		}
		allowed[path] = n
	}
	return allowed
}

// TestRetiredWordsAreFound checks that retiredWords counts retired words and no others.
func TestRetiredWordsAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"The gate opens when the last leftover has come.":           2,
		"OutcomeOf tells whether the call ran.":                     1,
		"The gateway tells a navigator about aggregates.":           0,
		"A tell is a one-way call; the barrier holds what comes.":   0,
		"Permissions are the broker's affair; it waited in vain.":   2,
		"Who told what to whom, and which shards move for balance.": 1,
	} {
		got := 0
		for _, n := range retiredWords(text) {
			got += n
		}
		if got != want {
			t.Errorf("%q: %d retired words, want %d", text, got, want)
		}
	}
}

package arch

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// headless finds words that mostly begin a clause without a noun, such as "sends what was
// appended". The noun says more: "sends appended envelopes".
var headless = regexp.MustCompile(`(?i)\b(what|whatever|who|whoever|whom)\b`)

// maxHeadless bounds how often such words stand in Go comments, by folder and tests aside.
// It is only ever lowered, with each folder that is edited. Folders that are not listed may
// have fewHeadless.
var maxHeadless = map[string]int{}

const fewHeadless = 4

// TestHeadlessClauses fails when a folder's comments get more of those words.
func TestHeadlessClauses(t *testing.T) {
	counts := map[string]int{}
	for _, f := range loadTree(t) {
		if f.generated || f.test {
			continue
		}
		for _, group := range f.syntax.Comments {
			counts[proseFolder(f.dir)] += len(headless.FindAllString(group.Text(), -1))
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(counts)) {
		n := counts[folder]
		most, listed := maxHeadless[folder]
		if !listed {
			most = fewHeadless
		}
		switch {
		case n > most:
			t.Errorf("%s: %d times what, who and the like in comments, at most %d may be", folder, n, most)
		case listed && n < most:
			t.Logf("%s: lower its bound of headless clauses to %d", folder, n)
		}
	}
}

// proseFolder is the folder that a package's comments are counted for: the first two
// parts of its path.
func proseFolder(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

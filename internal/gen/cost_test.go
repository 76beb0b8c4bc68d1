package gen

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// methodShapes are methods as users write them. lines and bytes bound the generated code that one
// more such method may cost without options in the directive. The comment behind each row has the
// lines and bytes with JSON and a tell.
var methodShapes = []struct {
	name, signature, body string
	lines, bytes          int
}{
	{"bare", "(ctx context.Context) error", "return nil", 19, 570},                                                                          // 33, 873
	{"argument", "(ctx context.Context, n int64) error", "return nil", 33, 990},                                                             // 67, 1955
	{"result", "(ctx context.Context) (int64, error)", "return 0, nil", 31, 900},                                                            // 73, 2086
	{"both", "(ctx context.Context, order string) (left int64, err error)", "return 0, nil", 41, 1180},                                      // 105, 3176
	{"list", "(ctx context.Context) ([]Line, error)", "return nil, nil", 34, 970},                                                           // 73, 2108
	{"struct", "(ctx context.Context, order string, line Line) (left int64, err error)", "return 0, nil", 47, 1320},                         // 111, 3412
	{"large", "(ctx context.Context, a string, b int64, line Line) (total int64, lines []Line, err error)", "return 0, nil, nil", 58, 1640}, // 120, 3860
	{"refusing", "(ctx context.Context, at Place) (found Place, err error)", "return at, nil", 46, 1250},                                    // 118, 3588
}

// TestMethodCost bounds the lines and bytes that one more method adds to the generated code, and
// logs them (go test -v).
func TestMethodCost(t *testing.T) {
	const few, many = 2, 12
	files := make(map[string]string)
	for _, s := range methodShapes {
		for _, n := range []int{few, many} {
			files[fmt.Sprintf("%s%d/p.go", s.name, n)] = shapedPackage(s.signature, s.body, n)
		}
	}
	dir := module(t, "example.com/cost", files)
	clean(t, options(dir, "./..."))
	var allLines, allBytes int
	for _, s := range methodShapes {
		size := func(n int) (lines, bytes int) {
			code := read(t, dir, filepath.Join(fmt.Sprint(s.name, n), model.OutputName))
			return strings.Count(code, "\n"), len(code)
		}
		fewLines, fewBytes := size(few)
		lines, bytes := size(many)
		lines, bytes = (lines-fewLines)/(many-few), (bytes-fewBytes)/(many-few)
		allLines, allBytes = allLines+lines, allBytes+bytes
		t.Logf("%-10s %4d lines %5d bytes a method", s.name, lines, bytes)
		if lines > s.lines || bytes > s.bytes {
			t.Errorf("%s%s costs %d lines and %d bytes, want at most %d and %d", s.name, s.signature, lines, bytes, s.lines, s.bytes)
		}
	}
	t.Logf("%-10s %4d lines %5d bytes a method", "mean", allLines/len(methodShapes), allBytes/len(methodShapes))
}

// shapedPackage returns the source of a package with an entity of n methods of one signature.
func shapedPackage(signature, body string, n int) string {
	var b strings.Builder
	b.WriteString(`package p

import (
	"context"
	"net/netip"
)

type Line struct {
	SKU   string
	Count int
}

// Place refuses to be encoded when its address does.
type Place struct {
	Addr netip.Addr
	Name string
}

// Stock is one of many.
//
//shard:entity
type Stock struct {
	Left int64 ` + "`shard:\"state\"`" + `
	Kept []Line ` + "`shard:\"state\"`" + `
	At   Place ` + "`shard:\"state\"`" + `
}
`)
	for i := range n {
		fmt.Fprintf(&b, "\n// Take%02d takes pieces for an order.\nfunc (s *Stock) Take%02d%s {\n\t%s\n}\n", i, i, signature, body)
	}
	return b.String()
}

package e2e

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/natsproc"
)

// TestSecurityPage runs the commands of docs/security.md unchanged, except for the port and the
// folder, and checks their output.
func TestSecurityPage(t *testing.T) {
	t.Parallel()
	for _, needed := range []string{"bash", "openssl"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip(err)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "security.md"))
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```bash\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, block, "the page has no commands")
	address, err := natsproc.FreeAddress("127.0.0.1")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	script := strings.ReplaceAll(string(block[1]), ":4222", ":"+port)
	script = strings.ReplaceAll(script, "$(mktemp -d)", t.TempDir())

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var stdout, stderr strings.Builder
	// When the script ends, the processes that it has started end too.
	cmd := exec.CommandContext(ctx, "bash", "-c", "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n"+script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join("..", ".."), &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	release, err := natsproc.StartChild(cmd, nil)
	require.NoError(t, err)
	err = cmd.Wait()
	release()
	t.Logf("it printed\n%s\nand\n%s", &stdout, &stderr)
	require.NoError(t, err)
	lines := strings.Split(stdout.String(), "\n")
	totals := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !regexp.MustCompile(`^\d+$`).MatchString(line) })
	require.Equal(t, []string{"5", "5", "6"}, totals)
	require.Regexp(t, `(?m)^w1 `, stdout.String(), "the list of members, the one that is up first at its head")
	require.Regexp(t, `(?m)^w2 `, stdout.String(), "the list of members")
	for _, denied := range []string{
		`Publish to "sh.counter.o.bob.do.`, "shardctl permissions operator -cluster counter -name bob",
		`"sh.counter.r.c.ann.`, "shardctl permissions client -cluster counter -name ann",
	} {
		require.Contains(t, stderr.String(), denied)
	}
}

// TestSecurityPageNamesTests: each line of the table of attacks names a test, and each named test
// exists.
func TestSecurityPageNamesTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "security.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| who | tries |")
	require.True(t, found)
	named, rows := regexp.MustCompile("`(Test\\w+)`"), 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		tests := named.FindAllStringSubmatch(line, -1)
		require.NotEmpty(t, tests, line)
		for _, test := range tests {
			require.True(t, declared(t, test[1], ".", "../driver/peers", "../driver/control", "../core/region", "../../cmd/shardctl"), "%s: no %s", line, test[1])
		}
	}
	require.Greater(t, rows, 20)
}

// declared reports whether one of the folders declares the test.
func declared(t *testing.T, test string, folders ...string) bool {
	t.Helper()
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			if strings.Contains(string(source), "\nfunc "+test+"(t *testing.T)") {
				return true
			}
		}
	}
	return false
}

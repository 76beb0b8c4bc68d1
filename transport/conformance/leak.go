package conformance

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Main is a TestMain that fails if goroutines of links or of nats.go are left after all tests.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leaked(5 * time.Second); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "%d goroutines leaked:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// leaked waits up to patience, because nats.go does not wait, and returns the goroutines left.
func leaked(patience time.Duration) []string {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); ; <-poll.C {
		left := suspects()
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

func suspects() []string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var found []string
	// The first stack is that of the calling goroutine.
	for _, stack := range strings.Split(string(buf), "\n\n")[1:] {
		if strings.Contains(stack, "github.com/nats-io/nats.go.") ||
			strings.Contains(stack, "github.com/shardgen/shardgen/transport/") {
			found = append(found, stack)
		}
	}
	return found
}

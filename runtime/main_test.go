package shard_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/util/invariant"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestMain fails if goroutines of this module are left after all tests.
func TestMain(m *testing.M) {
	shard.SetDirectBackOff(50 * time.Millisecond)
	if !invariant.Race { // most tests wait
		if err := flag.Set("test.parallel", "4"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if left := leaked(10 * time.Second); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines leaked:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// leaked returns the goroutines left after patience. It gives them this time because timers may
// still fire after a node has stopped.
func leaked(patience time.Duration) (left []string) {
	poll := time.NewTicker(testTick)
	defer poll.Stop()
	for end := time.Now().Add(patience); ; <-poll.C {
		if left = strangers(); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// strangers returns the stacks of the module's goroutines, except the caller's.
func strangers() (found []string) {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for _, stack := range strings.Split(string(buf), "\n\n")[1:] {
		if strings.Contains(stack, "github.com/shardgen/shardgen/") {
			found = append(found, stack)
		}
	}
	return found
}

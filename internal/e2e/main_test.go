package e2e

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/shardgen/shardgen/internal/e2e/node"
)

// TestMain is the node process, too: tests start this very program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == node.Command {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := node.Main(ctx, os.Args[2:], os.Stdin, os.Stdout)
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

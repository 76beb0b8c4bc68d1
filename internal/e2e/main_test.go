package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/e2e/node"
)

// TestMain also runs as a node: tests start this program as a process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == node.Command {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := node.Main(ctx, os.Args[2:], os.Stdin, os.Stdout)
		stop()
		os.Exit(code)
	}
	if len(os.Args) == 4 && os.Args[1] == hostile.Command {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err := hostile.RunMember(ctx, os.Args[2:], os.Stdin, os.Stdout)
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

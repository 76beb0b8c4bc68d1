// Package process has the parts of a benchmark over several processes: child processes of the same
// program in another role, and members of a cluster.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// A Child is another process of this program. It ends when its input does. Its methods are called
// from one goroutine at a time.
type Child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Spawn starts this program with other arguments and waits until it says that it is
// ready. line is the line that it printed. The process is killed when ctx ends.
func Spawn(ctx context.Context, args ...string) (c *Child, line string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	c = &Child{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if line, err = c.out.ReadString('\n'); err != nil {
		return nil, "", fmt.Errorf("start a process with %q: %w", args, errors.Join(err, c.End()))
	}
	return c, line, nil
}

// Do writes a line to the child's input and returns the line with which it answers.
func (c *Child) Do(line string) (answer string, err error) {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return "", err
	}
	return c.out.ReadString('\n')
}

// Pid is the child's process id.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Kill ends the child without warning. End still waits for it.
func (c *Child) Kill() error { return c.cmd.Process.Kill() }

// End closes the child's input and waits until it has ended.
func (c *Child) End() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}

// Config is a process's of a cluster.
func Config(url, cluster, name string) shard.Config {
	return shard.Config{
		Cluster: cluster, Name: name, Transport: natstransport.New(url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// Direct is Config with direct lanes.
func Direct(url, cluster, name string) shard.Config {
	cfg := Config(url, cluster, name)
	cfg.Direct.Listen = "127.0.0.1:0" // a client only dials
	return cfg
}

// Member starts a node that hosts accounts.
func Member(ctx context.Context, cfg shard.Config, opts ...shard.HostOption) (*shard.Node, error) {
	node := shard.New(cfg)
	if err := fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{} }, append(opts, shard.IdleAfter(0))...); err != nil {
		return nil, err
	}
	return node, node.Start(ctx)
}

// AwaitDirect calls an entity until frames go directly.
func AwaitDirect(ctx context.Context, conn *shard.Conn, ref fixture.AccountRef) error {
	for begin := time.Now(); conn.Counters()["frames sent directly"] < 10; {
		if time.Since(begin) > 10*time.Second {
			return errors.New("no frame goes directly")
		}
		if _, err := ref.Echo(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

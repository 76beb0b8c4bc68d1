// Package process has what a benchmark with several processes needs: child processes that run the
// same program in another role, and members and clients of a cluster.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// A Child is a process that runs this program again, in another role. The process ends when its
// standard input is closed. The methods of a Child must not be called concurrently.
type Child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Spawn starts this program with args, and returns the child's first line, printed when it is
// ready. The child is killed when ctx ends.
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

// Do writes a line to the child's input and returns the line that the child answers.
func (c *Child) Do(line string) (answer string, err error) {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return "", err
	}
	return c.out.ReadString('\n')
}

func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Kill sends SIGKILL to the child. End must still be called, to wait for it.
func (c *Child) Kill() error { return c.cmd.Process.Kill() }

// End closes the child's input and waits until the child has ended.
func (c *Child) End() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// A process is started again whenever it ends, as an orchestrator does.
type process struct {
	name string
	args []string
	logs io.Writer
	ups  atomic.Int64 // how often it reported that it works

	mu  sync.Mutex
	cmd *exec.Cmd // nil while it does not run
}

// run keeps the process running until ctx ends.
func (p *process) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := p.once(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintf(p.logs, "%s ended: %v\n", p.name, err)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (p *process) once(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, p.args...) // the end of ctx kills it
	cmd.Stderr = p.logs
	if _, err := cmd.StdinPipe(); err != nil { // closes when this process ends
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.set(cmd)
	defer p.set(nil)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "up" {
			p.ups.Add(1)
		}
	}
	return cmd.Wait()
}

func (p *process) set(cmd *exec.Cmd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = cmd
}

// kill ends the process by SIGKILL.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it may have ended
	}
}

// restart kills all processes at once, and returns when all of them work again. away lasts from the
// kill until the first of them works.
func restart(ctx context.Context, all ...*process) (away span, err error) {
	before := make([]int64, len(all))
	for i, p := range all {
		before[i] = p.ups.Load()
	}
	away.from = time.Now()
	for _, p := range all {
		p.kill()
	}
	for up := 0; up < len(all); {
		up = 0
		for i, p := range all {
			if p.ups.Load() > before[i] {
				up++
			}
		}
		if up > 0 && away.to.IsZero() {
			away.to = time.Now()
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return away, fmt.Errorf("start %s again: %w", all[0].name, context.Cause(ctx))
		}
	}
	return away, nil
}

// A span is the time between two moments.
type span struct{ from, to time.Time }

// overlap returns how much of s is between two times.
func (s span) overlap(from, to time.Time) time.Duration {
	if s.from.After(from) {
		from = s.from
	}
	if s.to.Before(to) {
		to = s.to
	}
	return max(to.Sub(from), 0)
}

// freePort returns a port at which nobody listens. The port is below the range from which the
// system takes ports for outgoing connections. Otherwise such a connection could take the port
// while the process that listens at the port is being restarted.
func freePort() (int, error) {
	for range 100 {
		port := 10_000 + rand.IntN(20_000)
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port found")
}

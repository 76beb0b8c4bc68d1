package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// A process is a worker process, started by this process. The worker's standard input is a pipe
// from this process. When this process ends for any reason, the pipe is closed and the worker ends.
type process struct {
	name string
	cmd  *exec.Cmd
	up   chan struct{} // closed when it says that it is up
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done

	mu       sync.Mutex
	expected bool   // this process has told it to end
	last     string // its message on why it ended
}

// startProcess starts a worker, and does not wait until it is ready. report gets each line that the
// worker prints. lost gets the error if the worker ends without being told to.
func startProcess(name, url, cluster, membership string, report func(string), lost func(error)) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	cmd := exec.Command(program, "worker", "-parent", "-nats", url, "-cluster", cluster, "-membership", membership, "-name", name)
	if _, err := cmd.StdinPipe(); err != nil { // closes when this process ends
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, up: make(chan struct{}), done: make(chan struct{})}
	go p.wait(stdout, stderr, report, lost)
	return p, nil
}

// wait reads output until the worker ends. kill() waits for wait().
func (p *process) wait(stdout, stderr io.Reader, report func(string), lost func(error)) {
	var readers sync.WaitGroup
	readers.Go(func() {
		for line := range lines(stdout) {
			if strings.HasSuffix(line, " is up") {
				close(p.up)
			}
		}
	})
	readers.Go(func() {
		for line := range lines(stderr) {
			if last, ok := strings.CutPrefix(line, "counter: "); ok {
				p.mu.Lock()
				p.last = last // ended reports it
				p.mu.Unlock()
				continue
			}
			report(p.name + ": " + line)
		}
	})
	readers.Wait() // before Wait, which closes the pipes
	p.err = p.cmd.Wait()
	p.mu.Lock()
	expected := p.expected
	p.mu.Unlock()
	if !expected {
		lost(p.ended())
	}
	close(p.done)
}

func lines(r io.Reader) func(func(string) bool) {
	return func(yield func(string) bool) {
		for s := bufio.NewScanner(r); s.Scan(); {
			if !yield(s.Text()) {
				return
			}
		}
	}
}

func (p *process) ready(ctx context.Context) error {
	select {
	case <-p.up:
		return nil
	case <-p.done:
		return p.ended()
	case <-ctx.Done():
		return fmt.Errorf("start %s: %w", p.name, context.Cause(ctx))
	}
}

func (p *process) leave(ctx context.Context) error {
	p.mu.Lock()
	p.expected = true
	p.mu.Unlock()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", p.name, context.Cause(ctx))
	}
	if p.err != nil {
		return p.ended()
	}
	return nil
}

// ended returns the error of a worker that ended without being told to.
func (p *process) ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.last != "":
		return fmt.Errorf("%s: %s", p.name, p.last)
	case p.err != nil:
		return fmt.Errorf("%s ended: %w", p.name, p.err)
	}
	return fmt.Errorf("worker %s left the cluster without being asked", p.name)
}

func (p *process) kill() {
	p.mu.Lock()
	p.expected = true
	p.mu.Unlock()
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"

	"github.com/shardgen/shardgen/examples/scheduler/job"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

const cluster = "scheduler"

// worker hosts jobs until ctx ends or stdin is closed.
func worker(ctx context.Context, url, name string, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process: a read cannot be taken back
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	store, err := natsstore.Open(ctx, url, natsstore.Config{Name: cluster})
	if err != nil {
		return err
	}
	defer store.Close()
	node := shard.New(shard.Config{
		Cluster: cluster, Name: name, Transport: natstransport.New(url), Store: store, Logger: slog.New(slog.NewTextHandler(stderr, nil)),
	})
	_ = job.Host(node) // Start returns its error
	if err := node.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "up")
	select {
	case <-ctx.Done():
		return node.Close()
	case <-node.Done():
		return node.Err()
	}
}

// A crew is the workers, as processes.
type crew struct {
	url     string
	logs    io.Writer
	workers map[string]*exec.Cmd
}

// start starts a worker, and returns when it is up.
func (c *crew) start(name string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "worker", c.url, name)
	cmd.Stderr = c.logs
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
	if c.workers == nil {
		c.workers = map[string]*exec.Cmd{}
	}
	c.workers[name] = cmd
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		c.kill(name)
		return fmt.Errorf("%s did not start: it printed %q (%v; run it with -v)", name, line, err)
	}
	return nil
}

// kill ends a worker by SIGKILL.
func (c *crew) kill(name string) {
	if cmd := c.workers[name]; cmd != nil {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
		delete(c.workers, name)
	}
}

func (c *crew) killAll() {
	for name := range c.workers {
		c.kill(name)
	}
}

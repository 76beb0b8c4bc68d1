package main

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

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/bench/limit"
	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// Subjects of the limits.
const (
	subjectRequest = "bench.request"
	subjectBatch   = "bench.batch"
	subjectTell    = "bench.tell"
)

// child is another process of this program. It ends when its input does.
type child struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// spawn starts this program in another role and waits until it says that it is
// ready. line is the line that it printed.
func spawn(url, role, cluster, name string) (c *child, line string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(self, "-role", role, "-url", url, "-cluster", cluster, "-name", name)
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
	c = &child{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if line, err = c.out.ReadString('\n'); err != nil {
		return nil, "", fmt.Errorf("start %s %s: %w", role, name, errors.Join(err, c.end()))
	}
	return c, line, nil
}

func (c *child) end() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}

// config is a process's of a cluster.
func config(url, cluster, name string) shard.Config {
	return shard.Config{
		Cluster: cluster, Name: name, Transport: natstransport.New(url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// directly is config with direct lanes.
func directly(url, cluster, name string) shard.Config {
	cfg := config(url, cluster, name)
	cfg.Direct.Listen = "127.0.0.1:0" // a client only dials
	return cfg
}

// member starts a node that hosts accounts.
func member(ctx context.Context, cfg shard.Config, opts ...shard.HostOption) (*shard.Node, error) {
	node := shard.New(cfg)
	if err := fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{} }, append(opts, shard.IdleAfter(0))...); err != nil {
		return nil, err
	}
	return node, node.Start(ctx)
}

// serve is a child's life in its role.
func serve(ctx context.Context, role, url, cluster, name string) error {
	switch role {
	case "host":
		node, err := member(ctx, config(url, cluster, name))
		if err != nil {
			return err
		}
		defer func() { _ = node.Close() }()
	case "host-direct":
		node, err := member(ctx, directly(url, cluster, name))
		if err != nil {
			return err
		}
		defer func() { _ = node.Close() }()
	case "shards":
		node := shard.New(config(url, cluster, name))
		if err := errors.Join(
			fixture.HostCoarse(node, func() *fixture.Coarse { return &fixture.Coarse{} }),
			fixture.HostFine(node, func() *fixture.Fine { return &fixture.Fine{} }),
			node.Start(ctx),
		); err != nil {
			return err
		}
		defer func() { _ = node.Close() }()
	case "vaults-r1", "vaults-r3":
		_, stop, err := vaultNode(ctx, url, cluster, name, int(role[len(role)-1]-'0'))
		if err != nil {
			return err
		}
		defer stop()
	case "vaults-resting":
		_, stop, err := vaultNode(ctx, url, cluster, name, 1, shard.IdleAfter(2*time.Second))
		if err != nil {
			return err
		}
		defer stop()
	case "answer":
		stop, err := answer(url)
		if err != nil {
			return err
		}
		defer stop()
	case "page": // it has printed its address
		stop, err := servePage(ctx, url, cluster)
		if err != nil {
			return err
		}
		defer stop()
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	case "first": // a fresh process that makes one call
		begin := time.Now()
		conn, err := shard.Dial(ctx, config(url, cluster, name))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if _, err := fixture.NewAccountClient(conn).Ref("entity-1").Add(ctx, 1); err != nil {
			return err
		}
		fmt.Println(time.Since(begin).Nanoseconds())
		return nil
	default:
		return fmt.Errorf("role %q: want host, host-direct, shards, vaults-r1, vaults-r3, vaults-resting, answer, page or first", role)
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// answer serves the limits: nats.Request, and batches by hand.
func answer(url string) (stop func(), err error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	fail := func(err error) { fmt.Fprintln(os.Stderr, "answer:", err) }
	if _, err := conn.Subscribe(subjectRequest, func(m *nats.Msg) {
		if err := m.Respond(m.Data); err != nil {
			fail(err)
		}
	}); err != nil {
		return nil, err
	}
	batches, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	tells, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	if _, err := limit.Answer(batches, subjectBatch, fail); err != nil {
		return nil, err
	}
	if _, err := limit.Count(tells, subjectTell, fail); err != nil {
		return nil, err
	}
	return func() {
		conn.Close()
		batches.Close()
		tells.Close()
	}, conn.Flush()
}

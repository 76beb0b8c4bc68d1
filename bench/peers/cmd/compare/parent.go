package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/bench/process"
)

const members = 3

const cellTimeout = 60 * time.Second

type parent struct {
	url  string
	time time.Duration
}

// measure runs a cell in its own processes. A failure is in the result's Error.
func (p *parent) measure(ctx context.Context, g group, name string, round int) result {
	ctx, cancel := context.WithTimeout(ctx, cellTimeout)
	defer cancel()
	r, err := p.run(ctx, g, name, round)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("the cell was ended after %v: %w", cellTimeout, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %s: %v\n", g.name, name, err)
		return broken(err)
	}
	return r
}

func (p *parent) run(ctx context.Context, g group, name string, round int) (result, error) {
	cluster := fmt.Sprintf("%s-%s-%d", g.name, name, round)
	cluster = strings.NewReplacer(" ", "-", ".", "-").Replace(cluster)
	spawn := func(role string, more ...string) (*process.Child, string, error) {
		c, line, err := process.Spawn(ctx, append([]string{
			"-role", role, "-only", g.name, "-contestant", name, "-url", p.url, "-time", p.time.String(), "-cluster", cluster,
		}, more...)...)
		return c, strings.TrimSpace(line), err
	}
	var line string
	var child *process.Child
	var err error
	switch g.cell.kind {
	case "cluster":
		return p.runCluster(spawn)
	case "remote":
		host, address, err := spawn("host")
		if err != nil {
			return result{}, err
		}
		defer func() { _ = host.End() }()
		child, line, err = spawn("cell", "-address", address)
		if err != nil {
			return result{}, err
		}
	case "idle":
		child, line, err = spawn("idle")
	default:
		child, line, err = spawn("cell")
	}
	if err != nil {
		return result{}, err
	}
	_ = child.End() // it has reported its result
	return parse(line)
}

func parse(line string) (r result, err error) {
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, fmt.Errorf("parse the result line %q: %w", line, err)
	}
	return r, nil
}

// runCluster starts three members at once. When all have joined, the third makes calls.
func (p *parent) runCluster(spawn func(role string, more ...string) (*process.Child, string, error)) (result, error) {
	ports, err := freePorts(members * portsEach)
	if err != nil {
		return result{}, err
	}
	var all []*process.Child
	for i := range members {
		c, _, err := spawn("member", "-number", strconv.Itoa(i), "-ports", ports)
		if err != nil {
			return result{}, err
		}
		defer func() { _ = c.End() }()
		all = append(all, c)
	}
	begin := time.Now()
	took, errs := make([]time.Duration, members), make(chan error, members)
	for i, c := range all {
		go func() {
			line, err := c.Do("join")
			if err == nil {
				var at int64
				at, err = strconv.ParseInt(strings.TrimSpace(line), 10, 64)
				took[i] = time.Unix(0, at).Sub(begin)
			}
			errs <- err
		}()
	}
	for range all {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return result{}, fmt.Errorf("form a cluster: %w", err)
	}
	line, err := all[members-1].Do("call")
	if err != nil {
		return result{}, fmt.Errorf("call fresh ids: %w", err)
	}
	r, err := parse(line)
	r.Value = float64(max(took[0], took[1], took[2]).Microseconds()) / 1e3
	return r, err
}

// freePorts returns n ports. Other programs may take them before they are used.
func freePorts(n int) (string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		defer func() { _ = l.Close() }()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return "", err
		}
		ports = append(ports, port)
	}
	return strings.Join(ports, ","), nil
}

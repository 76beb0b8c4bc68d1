package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/bench/load"
)

func serve(ctx context.Context, role string, s setup, g group, name string, d time.Duration) error {
	c := contestants[name]
	out := os.Stdout // the parent's; other projects may not write there
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	os.Stdout = null
	switch role {
	case "host":
		address, stop, err := c.host(ctx, s, g.cell.entities)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out, address)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return stop.Close()
	case "cell":
		return report(out, func() (result, error) { return measure(ctx, s, c, g.cell, d) })
	case "idle":
		return report(out, func() (result, error) { return idle(ctx, s, c, g.cell.entities) })
	case "member":
		return serveMember(ctx, out, s, c, g.cell, d)
	default:
		return fmt.Errorf("role %q: want host, cell, idle or member", role)
	}
}

// report writes f's result to the parent. An error becomes a broken cell's result.
func report(out io.Writer, f func() (result, error)) error {
	r, err := f()
	if err != nil {
		r = broken(err)
	}
	return json.NewEncoder(out).Encode(r)
}

// broken is the result of a cell that does not work. It has no calls.
func broken(err error) result { return result{Failed: 1, Error: err.Error()} }

func measure(ctx context.Context, s setup, c contestant, what cell, d time.Duration) (result, error) {
	open := c.local
	if what.kind == "remote" {
		open = c.dial
	}
	es, err := open(ctx, s, what.entities)
	if err != nil {
		return result{}, err
	}
	r, err := what.run(es, what, d)
	_ = es.Close() // lost messages are counted
	return r, err
}

// idle measures memory per resting entity, with its struct and id.
func idle(ctx context.Context, s setup, c contestant, n int) (result, error) {
	create, stop, err := c.idle(ctx, s)
	if err != nil {
		return result{}, err
	}
	before := inUse()
	for i := range n {
		if err := create(i); err != nil {
			return result{}, err
		}
	}
	time.Sleep(200 * time.Millisecond) // so that all tells have run
	r := result{Value: float64(inUse()-before) / float64(n), Calls: int64(n)}
	runtime.KeepAlive(create)
	return r, stop.Close()
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools are empty after two
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// serveMember joins the cluster at the first line of its input, and prints when it knows the
// others. At the second line it calls fresh ids and prints the result. It leaves when the input ends.
func serveMember(ctx context.Context, out io.Writer, s setup, c contestant, what cell, d time.Duration) error {
	_, _ = fmt.Fprintln(out, "ready")
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		return in.Err()
	}
	m, err := c.member(ctx, s)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, time.Now().UnixNano())
	if in.Scan() {
		if err := report(out, func() (result, error) { return fresh(m, what.callers, d) }); err != nil {
			return err
		}
		in.Scan() // until its input ends
	}
	return m.Close()
}

func fresh(m member, callers int, d time.Duration) (result, error) {
	var n counted
	call := func(prefix string) func(w, i int) error {
		return func(w, i int) error { return n.note(m.call(prefix + strconv.Itoa(w) + "-" + strconv.Itoa(i))) }
	}
	if _, err := load.Run(callers, d/warmFor, call("warm-")); err != nil {
		return result{}, err
	}
	got, err := load.Run(callers, d, call("fresh-"))
	return n.result(got), err
}

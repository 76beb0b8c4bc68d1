package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/fixture"
)

// memory measures the memory of idle entities beside their struct and id.
func memory(ctx context.Context, s settings, url string) error {
	run := func(time.Duration) (measure, error) {
		node, err := process.Member(ctx, process.Config(url, "memory"+strconv.Itoa(os.Getpid()), "node"))
		if err != nil {
			return measure{}, err
		}
		defer func() { _ = node.Close() }()
		client := fixture.NewAccountClient(node)
		before, routines := inUse(), runtime.NumGoroutine()
		for i := range s.entities {
			if _, err := client.Ref(id(i)).Add(ctx, 1); err != nil {
				return measure{}, err
			}
		}
		if now := runtime.NumGoroutine(); now > routines+16 {
			return measure{}, errors.New("idle entities have goroutines")
		}
		const own = 80 + 16 // the fixture's struct in its size class, and its id's bytes
		return measure{Value: float64(inUse()-before)/float64(s.entities) - own}, nil
	}
	g := group{[]contestant{{"shardgen", run}}, []row{{
		title: "idle entity, of " + strconv.Itoa(s.entities) + ", beside its struct and id", unit: "B", figure: value, target: "≤ 256 B",
	}}}
	return g.print(os.Stdout, 1, 0)
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

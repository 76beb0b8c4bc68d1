package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/bench/process"
)

// forming times a cluster of three from its third Start, and the first call of a
// fresh process.
func forming(ctx context.Context, s settings, url string) error {
	round := 0
	var firsts []measure
	form := func(time.Duration) (measure, error) {
		round++
		cluster := "forming" + strconv.Itoa(round)
		for i := range 2 {
			c, _, err := spawn(url, "host", cluster, "host"+strconv.Itoa(i))
			if err != nil {
				return measure{}, err
			}
			defer func() { _ = c.End() }()
		}
		begin := time.Now()
		node, err := process.Member(ctx, process.Config(url, cluster, "third"))
		took := time.Since(begin)
		if err != nil {
			return measure{}, err
		}
		defer func() { _ = node.Close() }()
		c, line, err := spawn(url, "first", cluster, "fresh")
		if err != nil {
			return measure{}, err
		}
		if err := c.End(); err != nil {
			return measure{}, err
		}
		nanos, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return measure{}, fmt.Errorf("first call: %w", err)
		}
		firsts = append(firsts, measure{Value: float64(nanos) / 1e6})
		return measure{Value: float64(took.Nanoseconds()) / 1e6}, nil
	}
	if err := (group{[]contestant{{"shardgen", form}}, []row{{
		title: "three nodes form, from the third Start", unit: "ms", figure: value, target: "≤ 1 s",
	}}}).print(os.Stdout, s.rounds, 0); err != nil {
		return err
	}
	i := -1
	again := func(time.Duration) (measure, error) {
		i++
		return firsts[i], nil
	}
	return group{[]contestant{{"shardgen", again}}, []row{{
		title: "first call of a fresh process, from Dial", unit: "ms", figure: value, target: "≤ 100 ms",
	}}}.print(os.Stdout, s.rounds, 0)
}

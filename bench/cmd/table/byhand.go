package main

import (
	"runtime"
	"time"

	"github.com/shardgen/shardgen/bench/limit"
	"github.com/shardgen/shardgen/bench/load"
)

// byHand are the limits of calls with a payload, from so many callers.
func byHand(l *limit.Hand, n int, payload []byte) []contestant {
	return []contestant{
		{"nats.Request", func(d time.Duration) (measure, error) {
			return load.Run(n, d, func(int, int) error { return l.Request(payload) })
		}},
		{"batched", func(d time.Duration) (measure, error) {
			return load.Run(n, d, func(int, int) error {
				_, err := l.Requester.Ask(payload)
				return err
			})
		}},
	}
}

// tellsByHand sends messages one way, in batches.
func tellsByHand(l *limit.Hand) func(time.Duration) (measure, error) {
	payload := make([]byte, 64)
	return func(d time.Duration) (measure, error) {
		m, err := load.Bulk(runtime.GOMAXPROCS(0), d, func(int, int) error { return l.Teller.Tell(payload) })
		if err != nil {
			return m, err
		}
		return m, l.Teller.Flush()
	}
}

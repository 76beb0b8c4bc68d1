package main

import (
	"slices"
	"time"
)

// A result is one contestant's cell in one round, as its process reports it; the parent adds the Value of
// a cluster.
type result struct {
	PerSecond float64
	P50, P99  time.Duration
	Value     float64 // bytes, or milliseconds
	Calls     int64
	Failed    int64 // calls with an error
	Lost      int64 // tells that returned no error and did not arrive
	Error     string
}

func perSecond(r result) float64 { return r.PerSecond }
func nanos(r result) float64     { return 1e9 / r.PerSecond }
func p50(r result) float64       { return float64(r.P50.Nanoseconds()) / 1e3 }
func p99(r result) float64       { return float64(r.P99.Nanoseconds()) / 1e3 }
func value(r result) float64     { return r.Value }

// results are those of the rounds, by contestant.
type results map[string][]result

// works reports whether the contestant has figures in every round.
func (rs results) works(name string) bool {
	return !slices.ContainsFunc(rs[name], func(r result) bool { return r.Calls == 0 })
}

package main

import (
	"time"

	"github.com/shardgen/shardgen/bench/limit"
	"github.com/shardgen/shardgen/bench/load"
)

// lonePublishes is one caller that publishes by hand.
func lonePublishes(p *limit.Publishes) contestant {
	return contestant{"publish", func(d time.Duration) (measure, error) {
		return load.Run(1, d, func(w, i int) error { return p.Publish(load.Pick(w, i, entities)) })
	}}
}

// manyPublishes has so many callers, each with entities of its own, so that none waits for another.
func manyPublishes(p *limit.Publishes, n int) contestant {
	return contestant{"publishes", func(d time.Duration) (measure, error) {
		m, err := load.Load{Warm: warmCalls}.Run(n, d, func(w, i int) error { return p.Publish(w + n*load.Pick(w, i, entities/n)) })
		m.PerAppend = 1
		return m, err
	}}
}

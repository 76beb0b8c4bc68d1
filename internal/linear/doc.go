// Package linear checks that the calls of one entity could have run one after
// another: its test loads a few entities from many callers, near and far, while their
// shards move and they are passivated, and gives porcupine what each caller saw.
//
// The simulator drives the cores one step at a time, under a lock. What goes round
// that lock, local calls of idle entities and all tells to them, is seen here and by the
// stress tests of package region.
//
// Twenty runs of a million operations each take about ten minutes:
//
//	go test -C internal/linear -run TestCallsAreLinearizable -count 20 -timeout 60m . -operations 1000000
//
// It is a module of its own, so that nobody else needs porcupine.
package linear

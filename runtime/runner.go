package shard

import "github.com/shardgen/shardgen/internal/runner"

// turnRunner is one of this process's runners, with the calls that its tells use again.
type turnRunner struct {
	runner.Runner
	told toldCalls
}

// Run runs one turn. It reports whether this goroutine still has the run token.
func (r *turnRunner) Run(t *runner.Turn, args []byte) bool {
	s := hostedOf(t.Entity)
	if t.Call == nil {
		return s.runTold(t.Entity, t.Method, args, r)
	}
	return s.runQueued(t.Entity, inbound(&t.Call.Call), r)
}

// Emptied makes the calls of tells that have run spare.
func (r *turnRunner) Emptied(idle bool) { r.told.collect(idle) }

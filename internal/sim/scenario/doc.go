// Package scenario lets one thing happen to a large cluster and measures what
// came of it: the rows of the table in internal/sim/README.md.
//
// To write one, add it to [All]. Its function begins a cluster (run.formed, or
// run.add for each node), chooses victims (run.pick), says when the fault is
// (run.begin), does it by the methods of the world, and lets time pass
// (run.follow). All else is counted for it.
package scenario

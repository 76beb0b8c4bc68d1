// Package scenario makes one thing happen to a large cluster and measures the effects: the
// rows of the tables in internal/sim/README.md.
//
// To write a scenario, add it to [All]. Its function starts a cluster (run.formed, or run.add
// for each node), chooses victims (run.pick), marks the moment of the fault (run.begin),
// applies it by the methods of the world, and lets time pass (run.follow). Everything else is
// counted for it.
package scenario

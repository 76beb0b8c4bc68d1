// Package e2e tests real processes over a real nats-server.
//
// Its folders build on each other. workload is an entity that distinguishes loss, doubling
// and reordering. witness is the record of its calls, which survives a killed process. node
// is the worker process that hosts it, process controls such processes, and cluster runs
// several of them with a server. load makes calls on them and judges the answers, fault has
// the faults, and cmd/fault is the command that runs one and prints its row. netns, proxy,
// cgroup and wallclock break networks, slow processes down and set clocks wrong for it. hostile and
// cmd/hostile attack a cluster with the rights of a client. README.md has the figures.
package e2e

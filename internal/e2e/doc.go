// Package e2e tests real processes over a real nats-server.
//
// Its folders build on each other. workload has entities whose calls show loss, doubling and
// reordering. witness records each of these calls in a file, which survives a killed process. node
// is the worker process that hosts the entities, process controls such processes, and cluster runs
// several of them with a server. load makes calls and judges the answers, fault has the faults, and
// cmd/fault runs one of them and prints its row. Faults use netns to break networks, proxy to break
// direct lanes, cgroup to slow processes down, and wallclock to set clocks wrong. hostile and
// cmd/hostile attack a cluster with the rights of a client. README.md has the figures.
package e2e

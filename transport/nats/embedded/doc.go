// Package embedded runs a NATS server inside the process, for examples, tests
// and deployments of one process. Importing it adds nats-server to the binary
// (about 15 MB); workers that connect to a server elsewhere do without it.
package embedded

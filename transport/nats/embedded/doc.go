// Package embedded runs a NATS server inside the process, for examples, tests and deployments of
// one process. Importing it adds nats-server, about 15 MB, to the binary; workers that connect to a
// separate server need not import it.
package embedded

// Package check checks the files of the folder deploy as far as a machine without Docker and
// Kubernetes can. Helm renders and lints the chart for sets of values. The types of Kubernetes 1.30
// to 1.34 read the manifests, the reference implementation of Compose reads the Compose file, and
// examples/counter parses the commands. The package is its own module, so users of shardgen do not
// depend on these tools.
package check

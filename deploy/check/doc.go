// Package check checks the files of the folder deploy as far as a machine without Docker and
// Kubernetes can. Helm renders and lints the chart for sets of values. The types of Kubernetes 1.30
// to 1.34 read the manifests, the reference implementation of Compose reads its file, and the
// program understands the commands. It is a module of its own, so that users of shardgen do not
// depend on these.
package check

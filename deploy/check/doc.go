// Package check checks the files of the folder deploy as far as a machine without Docker and
// Kubernetes can: the chart is rendered by Helm and its manifests are read by Kubernetes' own types,
// the file for Compose by the reference implementation of Compose, and the commands are understood by
// the program. It is a module of its own, so that users of shardgen do not depend on Helm, Kubernetes and Compose.
package check

// Package operator is what operators and the processes of a cluster say to each
// other: the messages of runtime/admin and their encoding. It has no state.
package operator

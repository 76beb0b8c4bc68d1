// Package operator has the messages between operators and the processes of a cluster,
// which runtime/admin sends, and their encoding. It has no state.
package operator

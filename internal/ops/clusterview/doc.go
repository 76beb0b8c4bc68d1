// Package clusterview evaluates what the members of a cluster answer to operators: the health of
// the cluster, and the rates of its turns. It has no state.
package clusterview

// Package clusterview judges and sums up the answers of members to operators, for people: the
// health of a cluster, and the rates of its turns. It has no state.
package clusterview

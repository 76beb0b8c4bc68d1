// Package invariant holds the assertions of the cores. A broken invariant is a bug of
// shardgen, never of its user or of a peer: bad input from outside is answered with an error.
//
// Cheap assertions call [Failf] and are always on. Assertions that walk a whole structure are
// compiled in by the build tag shardgen_invariants:
//
//	if invariant.Enabled {
//		if err := m.check(); err != nil {
//			invariant.Failf("after %v: %v", in, err)
//		}
//	}
package invariant

import "fmt"

// Violation is what [Failf] panics with, so that a driver can tell a broken core
// from a user's panic.
type Violation struct {
	Message string
}

// Error reads op: cause, with the remedy.
func (v *Violation) Error() string {
	return "invariant violated: " + v.Message + " (a bug in shardgen: please report it with this stack)"
}

// Failf panics with a [*Violation]. The message says what was found and what
// must hold, for it is all that a report will have.
func Failf(format string, args ...any) {
	panic(&Violation{Message: fmt.Sprintf(format, args...)})
}

// Package invariant has the assertions of the cores. A broken invariant is a bug in shardgen, never
// in its user's code or a peer: bad input from outside gets an error instead.
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

// Violation is the value with which [Failf] panics. By its type a driver distinguishes a broken
// state machine from a panic of the user's code.
type Violation struct {
	Message string
}

// Error returns Message with a prefix and the remedy.
func (v *Violation) Error() string {
	return "invariant violated: " + v.Message + " (a bug in shardgen: please report it with this stack)"
}

// Failf panics with a [*Violation]. The message must say what was found and what must hold, because
// a bug report has nothing else but the stack.
func Failf(format string, args ...any) {
	panic(&Violation{Message: fmt.Sprintf(format, args...)})
}

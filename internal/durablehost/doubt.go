package durablehost

import (
	"errors"
	"time"
)

// doubtAfter is how long the store must have failed before callers that ask again learn why.
const doubtAfter = time.Second

// errUnconfirmed is the cause where a tenure goes on, and the store fails.
var errUnconfirmed = errors.New("its log has not confirmed the commit")

// askAgain returns the waits that are told of the store's faults and ask again, and the
// others. It leaves all as it is, for waits that were released share its memory.
func askAgain(all []wait) (due, kept []wait) {
	for _, w := range all {
		if w.again {
			due = append(due, w)
		} else {
			kept = append(kept, w)
		}
	}
	return due, kept
}

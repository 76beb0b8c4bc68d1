package node

import (
	"errors"
	"io/fs"

	"github.com/shardgen/shardgen/store"
)

// Unanswered reports whether a request may succeed later, or has succeeded although the answer is lost.
// One that the store refuses for a missing right does not, nor does a read of what cannot be decoded.
func Unanswered(err error) bool {
	if errors.Is(err, fs.ErrPermission) {
		return false
	}
	for _, passing := range []error{store.ErrUnavailable, store.ErrUncertain, store.ErrBusy} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

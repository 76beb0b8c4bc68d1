package session

import "errors"

// ErrGone says that the peer is gone, so that nothing is sent to it any more.
var ErrGone = errors.New("the peer is gone")

package session

import "errors"

// ErrGone says that the peer has departed, so that nothing is sent to it any more.
var ErrGone = errors.New("the peer is gone")

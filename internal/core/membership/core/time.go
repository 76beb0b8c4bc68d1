package core

import "time"

func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

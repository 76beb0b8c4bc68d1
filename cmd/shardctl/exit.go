package main

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

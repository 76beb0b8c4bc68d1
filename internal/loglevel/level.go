// Package loglevel has the levels of log lines for packages that do no I/O, and so do not
// import log/slog: their environment writes the lines.
package loglevel

// A Level is the severity of a line of the log, as log/slog has it.
type Level int

// The levels.
const (
	Debug Level = -4
	Info  Level = 0
	Warn  Level = 4
	Error Level = 8
)

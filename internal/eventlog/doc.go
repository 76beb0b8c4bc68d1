// Package eventlog keeps the latest log lines of a process in memory, so that operators can ask
// any member what happened lately. A process has one [Log].
package eventlog

// Package failures keeps the last failed calls of the entities of a process for operators, in bounded
// memory: without arguments, results and texts of errors, which may hold state.
package failures

package codegen

import "fmt"

// MaxDepth bounds the nesting of a value of a recursive type. A deeper value, or one with a cycle,
// gives an error instead of an endless encoding.
const MaxDepth = 1000

// ErrDepth means that a value of a recursive type is nested deeper than [MaxDepth].
var ErrDepth = fmt.Errorf("the value is nested deeper than %d (a cycle of pointers? use a slice for a long list)", MaxDepth)

// An EncodeError means that a value cannot be encoded, because a Marshal method of its type has
// failed, or because the value is nested too deep.
type EncodeError struct {
	What string // "arguments of Stock.Reserve"
	Err  error
}

// Error returns "encode", the subject and the cause.
func (e *EncodeError) Error() string { return fmt.Sprintf("encode %s: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *EncodeError) Unwrap() error { return e.Err }

func encodeError(what string, err error) error {
	if e, ok := err.(*EncodeError); ok {
		return e
	}
	return &EncodeError{What: what, Err: err}
}

// A DecodeError means that bytes from the wire or the store do not fit this program's contract.
// They were written by an older or newer program with an incompatible contract, or by no shardgen
// program.
type DecodeError struct {
	What string // "arguments", or "state of Stock"
	Err  error
}

// Error returns "decode", the subject, the cause and a hint.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode %s: %v (do both sides run the same contract?)", e.What, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// An ArgumentsError tells the runtime that the arguments of this call cannot be decoded or copied,
// so the method did not run. Generated code returns the ArgumentsError to the runtime, which makes
// the caller's error from it. A nested call never returns an ArgumentsError, so a method cannot
// pass one on by mistake.
type ArgumentsError struct{ Err error }

// BadArguments returns the [*ArgumentsError] of arguments that cannot be copied.
func BadArguments(err error) error { return &ArgumentsError{encodeError("arguments", err)} }

// Error returns the text of the cause.
func (e *ArgumentsError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ArgumentsError) Unwrap() error { return e.Err }

// A ResultsError tells the runtime that the results of this call cannot be encoded or copied; the
// method has run. Like an [ArgumentsError] it never leaves the runtime.
type ResultsError struct{ Err error }

// BadResults returns the [*ResultsError] of results that cannot be encoded or copied, or nil if err
// is nil.
func BadResults(err error) error {
	if err == nil {
		return nil
	}
	return &ResultsError{encodeError("results", err)}
}

// Error returns the text of the cause.
func (e *ResultsError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ResultsError) Unwrap() error { return e.Err }

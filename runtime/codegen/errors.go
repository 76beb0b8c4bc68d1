package codegen

import "fmt"

// MaxDepth bounds the nesting of a value of a recursive type: a longer chain, or
// a circle, is an error instead of an endless encoding.
const MaxDepth = 1000

// ErrDepth is the cause when a value of a recursive type is nested too deep.
var ErrDepth = fmt.Errorf("nested deeper than %d (a cycle of pointers? use a slice for a long list)", MaxDepth)

// An EncodeError says that a value cannot be put on the wire: one of its own
// Marshal methods refused, or it is nested too deep.
type EncodeError struct {
	What string // "arguments of Stock.Reserve"
	Err  error
}

// Error reads op: subject: cause.
func (e *EncodeError) Error() string { return fmt.Sprintf("encode %s: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *EncodeError) Unwrap() error { return e.Err }

// encodeError is err as an [*EncodeError] about the named value, unless it is one already.
func encodeError(what string, err error) error {
	if e, ok := err.(*EncodeError); ok {
		return e
	}
	return &EncodeError{What: what, Err: err}
}

// A DecodeError says that bytes from the wire or the store break this program's contract: they are of
// an older or newer peer with a broken contract, or foreign.
type DecodeError struct {
	What string // "arguments", or "state of Stock"
	Err  error
}

// Error reads decode, the subject, the cause and a hint.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode %s: %v (do both sides run the same contract?)", e.What, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// An ArgumentsError is how generated code tells the runtime that the arguments of the
// call itself do not decode, or cannot be copied: the method was not entered. The
// runtime makes the caller's error of it. No call returns one, so an error that a
// method got from a call of its own is never mistaken for it.
type ArgumentsError struct{ Err error }

// BadArguments returns the [*ArgumentsError] of arguments that cannot be copied.
func BadArguments(err error) error { return &ArgumentsError{encodeError("arguments", err)} }

// Error is the cause's.
func (e *ArgumentsError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ArgumentsError) Unwrap() error { return e.Err }

// A ResultsError is how generated code tells the runtime that the results of the call
// itself do not encode, or cannot be copied: the method ran. Like an [ArgumentsError] it
// never leaves the runtime.
type ResultsError struct{ Err error }

// BadResults returns the [*ResultsError] of results that cannot be encoded or copied;
// nil where err is.
func BadResults(err error) error {
	if err == nil {
		return nil
	}
	return &ResultsError{encodeError("results", err)}
}

// Error is the cause's.
func (e *ResultsError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ResultsError) Unwrap() error { return e.Err }

package codegen

import "fmt"

// A DecodeError says that bytes from the wire are not what this program's
// contract says: an older or newer peer with a broken contract, or foreign bytes.
type DecodeError struct {
	What string // "arguments of Stock.Reserve"
	Err  error
}

// Error reads op: subject: cause.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode %s: %v (do both sides run the same contract?)", e.What, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

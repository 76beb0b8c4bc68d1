package codegen

import "context"

// A Turn is a local entity's turn on its caller's goroutine, for one call. Zero: there
// is none, and the call goes encoded. Generated code uses it so:
//
//	turn, err := r.ref.Begin(ctx, "Reserve")
//	if e, ok := turn.Entity.(*Stock); ok {
//		defer turn.End("Reserve", &err)
//		return codegen.Result(e.Reserve(turn.Context, order))
//	}
//	args := codegen.AppendString(codegen.NewArgs(), 1, order)
//	return decodeStockReserveReply(r.ref.Ask(ctx, "Reserve", args, err))
type Turn struct {
	Entity  any             // whose turn it is
	Context context.Context // the method's context, which is an ender
}

// An ender ends a turn.
type ender interface {
	// End ends the turn of the method: panicked is its panic value, err its error. It
	// returns the error that the caller gets.
	End(method string, panicked any, err error) error
}

// End ends the turn of a method. It must be deferred directly, for it recovers a
// panic of the method and turns it into the caller's error.
func (t Turn) End(method string, err *error) {
	panicked := recover()
	*err = t.Context.(ender).End(method, panicked, *err)
}

// Result returns a method's results, without the value where there is an error: over the
// wire none would arrive.
func Result[T any](v T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

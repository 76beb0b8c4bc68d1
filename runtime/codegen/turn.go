package codegen

import "context"

// A Turn is the turn of one call on the caller's goroutine, at an entity in the same process. The
// zero Turn means that the call must be encoded. Generated code uses it like this:
//
//	turn, err := r.ref.Begin(ctx, "Reserve")
//	if e, ok := turn.Entity.(*Stock); ok {
//		defer turn.End("Reserve", &err)
//		return codegen.Result(e.Reserve(turn.Context, order))
//	}
//	args := codegen.AppendString(codegen.NewArgs(), 1, order)
//	return decodeStockReserveReply(r.ref.Ask(ctx, "Reserve", args, err))
type Turn struct {
	Entity  any             // the called entity
	Context context.Context // the method's context, which implements ender
}

// An ender ends a turn, for Turn.End.
type ender interface {
	// End ends the turn of the method. panicked is the value of the method's panic, and err its
	// error. End returns the error for the caller.
	End(method string, panicked any, err error) error
}

// End ends the turn of a method. It must be deferred directly, because it recovers a panic of the
// method and turns the panic into the caller's error.
func (t Turn) End(method string, err *error) {
	panicked := recover()
	*err = t.Context.(ender).End(method, panicked, *err)
}

// Result returns v and err, the results of a method. If err is not nil, it returns the zero value
// instead of v, because a remote call returns no results with an error.
func Result[T any](v T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

// A PublishFunc receives, in place of a store, what a method publishes: subject and encoded data.
type PublishFunc func(subject string, data []byte, bestEffort bool) error

type publishKey struct{}

// WithPublish returns a context with which methods of plain structs publish to f. It is for tests.
func WithPublish(ctx context.Context, f PublishFunc) context.Context {
	return context.WithValue(ctx, publishKey{}, f)
}

// PublishOf returns the function given to [WithPublish], or nil.
func PublishOf(ctx context.Context) PublishFunc {
	f, _ := ctx.Value(publishKey{}).(PublishFunc)
	return f
}

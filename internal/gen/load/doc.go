// Package load reads annotated Go packages into a model, and says what is wrong
// with them: all at once, each with its position and a stable code.
//
// It is safe on a broken tree. A package that does not compile yet, because it or
// another calls what is still to be generated, loads; earlier output is never
// read. Only what the model is made of must type-check: the entities' structs,
// the signatures of their messages, and the types that cross the wire.
package load

// Package codegen is what generated code calls, and nothing else should: the
// description of an entity type, the port through which its clients call it,
// and the codec helpers. It changes only together with [ABI].
package codegen

// ABI numbers the agreement between generated code and this package. Generated
// code of another major ABI is refused where its type is hosted or called.
const ABI = 4

// Package codegen is called by generated code and by nothing else: it has the
// description of an entity type, the port through which its clients call it,
// and the codec helpers. It changes only together with [ABI].
//
// It is below the cores (membership, region and so on) and imports none of them, so
// that they may use its constants, such as [Moved].
package codegen

// ABI numbers the agreement between generated code and this package.
const ABI = 5

// ABI5 is what generated code of this ABI names, so that it does not compile with a
// runtime of another one.
const ABI5 = ABI

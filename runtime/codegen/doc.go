// Package codegen is called by generated code and by nothing else: it has the
// description of an entity type, the invoker through which its clients call it,
// and the codec helpers. It changes only together with [ABI6].
//
// It is below the cores (membership, region and so on) and imports none of them, so
// that they may use its constants, such as [Moved].
package codegen

// ABI6 numbers the agreement between generated code and this package. Generated code
// names it, so that it does not compile with a runtime of another ABI.
const ABI6 = 6

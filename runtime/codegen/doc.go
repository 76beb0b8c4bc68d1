// Package codegen is called by generated code and by nothing else: it has the
// description of an entity type, the port through which its clients call it,
// and the codec helpers. It changes only together with [ABI].
//
// It is below the cores (membership, region and so on) and imports none of them, so
// that they may use its constants, such as [Moved].
package codegen

// ABI numbers the agreement between generated code and this package. Generated
// code of another major ABI is refused where its type is hosted or called.
const ABI = 4

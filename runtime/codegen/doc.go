// Package codegen is for generated code only: the description of an entity type, the invoker
// through which clients call it, and codec helpers. It changes only together with [ABI6].
//
// It imports none of the cores (membership, region and so on), so the cores may use its constants,
// such as [Moved].
package codegen

// ABI6 is the version of the interface between generated code and this package. Generated code
// refers to ABI6 by name, so it compiles only with this version.
const ABI6 = 6

// Package contract parses, prints and checks shard.lock, the committed file with the wire format of
// a package's entities, and has the rules for changing it. Each line of the file is one entry. A
// number stays with its name and is never reused, so that programs of different versions understand
// each other.
//
// It does no I/O. Its input is text or a model. Its output is text, problems, and the numbers that
// it sets in the model.
package contract

// FileName is the name of the contract file, beside the generated code.
const FileName = "shard.lock"

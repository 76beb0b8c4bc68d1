// Package contract reads, writes and checks the committed file shard.lock: the wire format
// of a package's entities, one entry on each line, and the rules for changing it. A number
// stays with its name and is never reused, so that programs of different versions understand
// each other.
//
// It reads and writes no files: text or a model goes in; text, problems, and the numbers in
// the model come out.
package contract

// FileName is the name of the contract file, beside the generated code.
const FileName = "shard.lock"

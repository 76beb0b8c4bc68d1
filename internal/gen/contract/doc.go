// Package contract reads, writes and checks the committed file shard.lock: the wire format
// of a package's entities, one entry on each line, and the rules for changing it. A number
// stays with its name and is never reused, so that programs of different versions understand
// each other.
//
// It is pure: text in, text and problems out.
package contract

// FileName is the name of the contract file, beside the generated code.
const FileName = "shard.lock"

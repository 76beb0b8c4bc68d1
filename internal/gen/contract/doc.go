// Package contract is the committed file shard.lock: what a package's entities
// look like on the wire, one line a fact, and what may become of it. Numbers stay
// with the names that got them and are never given to others, so that programs
// of different versions understand each other.
//
// It is pure: text in, text and problems out.
package contract

// FileName is the name of the contract file, beside the generated code.
const FileName = "shard.lock"

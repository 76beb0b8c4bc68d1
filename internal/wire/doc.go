// Package wire holds the formats between processes: the control plane's protobuf messages,
// generated from the .proto files beside it, and the data plane's frames, with a hand-written codec
// tested against framepb/frame.proto.
//
// The .proto files are compiled by a Go program in gen, with protocompile and
// protobuf's own Go generator as libraries, so that go generate works in a fresh
// clone with Go and nothing else. gen is a module of its own: users never see the
// compiler among their dependencies. Its version of google.golang.org/protobuf and
// the root module's must agree. Files are registered as shardgen/wire/NAME.proto,
// because the registry is shared with all other protobuf of a user's program.
package wire

//go:generate go run -C gen . ..

// Package wire holds the formats between processes: the control plane's protobuf messages,
// generated from the .proto files beside it, and the data plane's frames, with a hand-written codec
// tested against framepb/frame.proto.
//
// The .proto files are compiled by a Go program in gen, which uses protocompile and protobuf's own
// Go generator as libraries. So go generate needs only Go and works in a fresh clone. gen is a
// module of its own, so that users never see the compiler among their dependencies. Its version of
// google.golang.org/protobuf and the root module's must agree. Files are registered as
// shardgen/wire/NAME.proto, because all protobuf files of a user's program share one registry.
package wire

//go:generate go run -C gen . ..

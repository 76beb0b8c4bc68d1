// Package wire holds what travels: the control plane's protobuf messages,
// generated from the .proto files beside it, and the data plane's frames, whose
// hand-written codec is tested against framepb/frame.proto.
package wire

//go:generate go run -C gen . ..

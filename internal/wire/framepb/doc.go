// Package framepb is the definition of the data plane's frames, for tests of
// the hand-written codec in package wire.
package framepb

//go:generate go run -C ../gen . ../framepb

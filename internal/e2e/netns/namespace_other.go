//go:build !linux || (!amd64 && !arm64)

package netns

import "errors"

var errUnsupported = errors.New("network namespaces cannot be made here: Linux on amd64 or arm64 is required")

// Supported returns an error: networks can be made only on Linux on amd64 or arm64.
func Supported() error { return errUnsupported }

type namespace struct{}

func newNamespace() (*namespace, error)                { return nil, errUnsupported }
func (*namespace) do(func() error) error               { return errUnsupported }
func (*namespace) path() string                        { return "" }
func (*namespace) close() error                        { return nil }
func (*namespace) run(string, string, ...string) error { return errUnsupported }
func (*namespace) output(string, string, ...string) (text string, err error) {
	return "", errUnsupported
}

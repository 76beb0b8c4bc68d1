// Package wallclock runs programs whose wall clock is wrong, while that of the
// machine and of all other processes stays right.
//
// Linux has no wall clock of a process's own: a time namespace shifts only the
// monotonic clocks, and Go programs read the clock without the C library, so that
// it cannot be replaced from outside. [Build] therefore builds the program with a
// package time of its own, by go build -overlay: time.Now adds a shift of whole
// seconds to the time that it reads, and is otherwise the standard library's.
//
// So a program with a [Shift] behaves as if its machine's clock had been set. Everything in it
// that reads the wall clock in Go is shifted at once, all libraries included.
// Timers, deadlines and time.Since use the monotonic clock and are not shifted, as
// they are not when a machine's clock is set. The shift covers neither the clock's rate
// nor the times that the kernel gives to files.
package wallclock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Supported reports whether programs can be built here: nil, or an error that names
// the missing prerequisite.
func Supported() error {
	_, err := patched(context.Background())
	return err
}

// Build builds the package with the given import path as the program out, with a
// wall clock that can be shifted. It must be called inside of this module. The
// first time on a machine takes a minute or two, for the standard library is built
// anew; the results are in Go's build cache after that.
func Build(ctx context.Context, importPath, out string) error {
	p, err := patched(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "wallclock-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	replace := make(map[string]string)
	for path, text := range p {
		copied := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			return err
		}
		replace[path] = copied
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return err
	}
	_, err = goTool(ctx, "build", "-race=false", "-overlay", list, "-tags", "shiftedclock", "-o", out, importPath)
	return err
}

// shiftFile is added to package time.
const shiftFile = `package time

import (
	"sync/atomic"
	_ "unsafe"
)

//go:linkname wallShift
var wallShift atomic.Int64
`

// The changes to time.Now.
const (
	readsClock   = "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	addsTheShift = "\tsec += wallShift.Load()\n"
)

// patched are the files of package time that differ, by their paths.
func patched(ctx context.Context) (map[string][]byte, error) {
	const why = "a program with a clock of its own cannot be built here: "
	root, err := goTool(ctx, "env", "GOROOT")
	if err != nil {
		return nil, fmt.Errorf(why+"%w", err)
	}
	dir := filepath.Join(root, "src", "time")
	path := filepath.Join(dir, "time.go")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf(why+"%w", err)
	}
	if bytes.Count(text, []byte(readsClock)) != 1 {
		return nil, errors.New(why + "time.Now of this version of Go is not as it was (mend package wallclock)")
	}
	return map[string][]byte{
		path:                               bytes.Replace(text, []byte(readsClock), []byte(readsClock+addsTheShift), 1),
		filepath.Join(dir, "wallshift.go"): []byte(shiftFile),
	}, nil
}

func goTool(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("go %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

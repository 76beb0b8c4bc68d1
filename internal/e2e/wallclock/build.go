// Package wallclock runs programs whose wall clock is wrong, while the clocks of the machine and of
// other processes stay right.
//
// On Linux a process cannot have a wall clock of its own: a time namespace shifts only the
// monotonic clocks. Go programs read the clock without the C library, so it cannot be replaced from
// outside either. [Build] therefore builds the program with a changed package time, by go build
// -overlay: time.Now adds a shift of whole seconds. All else is as in the standard library.
//
// A program with a [Shift] behaves as if its machine's clock had been set: all Go code in it,
// libraries included, reads the shifted clock. Timers, deadlines and time.Since use the monotonic
// clock and are not shifted, as when a machine's clock is set. Neither the clock's rate nor the
// times that the kernel gives to files are shifted.
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

// Supported returns nil if Build works on this machine, or an error that names what is missing.
func Supported() error {
	_, err := patched(context.Background())
	return err
}

// Build compiles the package with the given import path to a program whose wall clock can be
// shifted. It writes the program to the path out. It must be called inside this module. The first
// build on a machine takes one to two minutes, because Go rebuilds the standard library and then
// caches it.
func Build(ctx context.Context, importPath, out string) error {
	return build(ctx, out, "build", importPath)
}

// BuildTest builds the package's tests like Build.
func BuildTest(ctx context.Context, importPath, out string) error {
	return build(ctx, out, "test", importPath, "-c")
}

func build(ctx context.Context, out, command, importPath string, flags ...string) error {
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
	_, err = goTool(ctx, append(append([]string{command}, flags...), "-race=false", "-overlay", list, "-tags", "shiftedclock", "-o", out, importPath)...)
	return err
}

const shiftFile = `package time

import (
	"sync/atomic"
	_ "unsafe"
)

//go:linkname wallShift
var wallShift atomic.Int64
`

// readsClock is the beginning of time.Now. Build inserts addsTheShift after it.
const (
	readsClock   = "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	addsTheShift = "\tsec += wallShift.Load()\n"
)

// patched returns the changed and added files of package time.
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
		return nil, errors.New(why + "package wallclock cannot patch time.Now of this version of Go: its source has changed (adapt readsClock)")
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

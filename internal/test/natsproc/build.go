package natsproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

const module = "github.com/nats-io/nats-server/v2"

// build runs buildServer once a process.
var build = sync.OnceValues(buildServer)

// Build returns the path of a nats-server program. At first use it compiles the program, which
// takes half a minute on a slow machine, and keeps it in the user's cache directory: one program
// for each version of nats-server and Go.
func Build() (path string, err error) {
	path, err = build()
	if err != nil {
		return "", fmt.Errorf("build nats-server: %w", err)
	}
	return path, nil
}

func buildServer() (string, error) {
	version, err := goTool("list", "-m", "-f", "{{.Version}}", module)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "shardgen", "nats-server")
	name := strings.Join([]string{version, runtime.Version(), runtime.GOOS, runtime.GOARCH}, "-")
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Packages are tested at the same time. Each builds for itself and renames the
	// result, so that no process ever runs an incomplete program.
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	out := filepath.Join(tmp, "nats-server")
	if _, err := goTool("build", "-race=false", "-o", out, module); err != nil {
		return "", err
	}
	return path, os.Rename(out, path)
}

func goTool(args ...string) (string, error) {
	out, err := exec.CommandContext(context.Background(), "go", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return "", fmt.Errorf("go %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

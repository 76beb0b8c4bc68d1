package gen

import (
	_ "embed"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
)

// firstEntity is the file that Init writes, with the package's name filled in. It is
// embedded because go generate would also run directives in a string of a Go file.
//
//go:embed init.txt
var firstEntity string

// Init writes a file with a first entity into a folder below working, which must be in a module,
// and returns the file's path. It refuses a folder that has Go files.
func Init(working, dir string) (string, error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("init %s: %w", dir, err) }
	if !inModule(working) {
		return fail(errors.New("not in a module (run go mod init example.com/yours first)"))
	}
	name := filepath.Base(dir)
	if !token.IsIdentifier(name) {
		return fail(fmt.Errorf("%q cannot be a package's name (try a name like counter)", name))
	}
	path := filepath.Join(working, dir)
	if files, err := filepath.Glob(filepath.Join(path, "*.go")); err != nil || len(files) > 0 {
		return fail(errors.Join(errors.New("has Go files already (name another folder)"), err))
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fail(err)
	}
	file := filepath.Join(path, "counter.go")
	if err := writeAtomic(file, []byte(fmt.Sprintf(firstEntity, name))); err != nil {
		return fail(err)
	}
	return relative(working, file), nil
}

func inModule(dir string) bool {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); !errors.Is(err, fs.ErrNotExist) {
			return err == nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return false
		}
		dir = parent
	}
}

package gen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/shardgen/shardgen/internal/gen/contract"
	"github.com/shardgen/shardgen/internal/gen/load"
	"github.com/shardgen/shardgen/internal/gen/model"
	"github.com/shardgen/shardgen/templates"
)

// Options choose the packages of a run and what the run does.
type Options struct {
	load.Options
	// Check makes the run write nothing. Outcome.Stale lists the files that it would write.
	Check bool
	// Absolute makes all paths of the outcome absolute. go generate runs the tool in the folder of
	// each package, so relative paths would mean nothing to the person who called go generate
	// elsewhere.
	Absolute bool
}

// An Outcome describes a run. Paths below Options.Dir are relative to it, unless Options.Absolute
// is set.
type Outcome struct {
	// Diagnostics are the mistakes in the source. If there are any, nothing was
	// written.
	Diagnostics []load.Diagnostic
	Written     []string // files that were written or, if their last entity is gone, removed
	Stale       []string // files that Check found not up to date
	// Versions maps those paths of Stale whose file is up to date except for the version in its
	// header to that version.
	Versions map[string]string
	UpToDate int      // packages that needed no change, including those of clients
	Packages []string // import paths of the packages with entities, sorted

	dir string // Options.Dir; "" with Options.Absolute
}

type change struct {
	path    string
	content []byte // nil: remove it
	old     []byte // nil: there was no file, or its content does not matter
}

// Run generates the code of the packages. It returns an error if the packages cannot be read or
// have no entity, or if a file cannot be printed or written. Mistakes in the source are in
// [Outcome].Diagnostics.
func Run(ctx context.Context, o Options) (*Outcome, error) {
	if o.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("generate: %w", err)
		}
		o.Dir = dir
	}
	loaded, err := load.Load(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Diagnostics: loaded.Diagnostics, Versions: map[string]string{}, dir: o.Dir}
	if o.Absolute {
		out.dir = ""
	}
	changes, err := plan(loaded, out)
	if err != nil {
		return nil, err
	}
	for i := range out.Diagnostics {
		out.Diagnostics[i].Pos.Filename = relative(out.dir, out.Diagnostics[i].Pos.Filename)
	}
	if len(out.Diagnostics) > 0 {
		return out, nil
	}
	if len(changes) == 0 && out.UpToDate == 0 {
		return nil, errNothing(o, out.dir, loaded.Excluded)
	}
	for _, c := range changes {
		if o.Check {
			path := relative(out.dir, c.path)
			out.Stale = append(out.Stale, path)
			if version, ok := model.OnlyVersion(string(c.old), string(c.content)); ok {
				out.Versions[path] = version
			}
			continue
		}
		if err := c.apply(); err != nil {
			return out, err
		}
		out.Written = append(out.Written, relative(out.dir, c.path))
	}
	return out, nil
}

// errNothing returns the error that no entity was found. If build constraints have excluded
// entities, the error names the first one.
func errNothing(o Options, dir string, excluded []load.Excluded) error {
	remedy := "write it above a struct"
	if len(excluded) > 0 {
		e := excluded[0]
		e.Pos.Filename = relative(dir, e.Pos.Filename)
		remedy = "the one at " + e.String() + ": pass -tags, or set GOOS and GOARCH"
	}
	return fmt.Errorf("generate %s: no //shard:entity, //shard:singleton or //shard:pool found (%s)", patterns(o.Patterns), remedy)
}

func patterns(list []string) string {
	if len(list) == 0 {
		return "."
	}
	return strings.Join(list, " ")
}

// relative returns path relative to dir, or unchanged if not below dir.
func relative(dir, path string) string {
	if dir == "" {
		return path
	}
	if r, err := filepath.Rel(dir, path); err == nil && !strings.HasPrefix(r, "..") {
		return r
	}
	return path
}

// plan finds the files to change. It adds diagnostics and the number of unchanged packages to out.
func plan(loaded *load.Result, out *Outcome) ([]change, error) {
	holes := make(map[string]bool) // folders of packages with mistakes, whose models may have holes
	for _, d := range loaded.Diagnostics {
		holes[filepath.Dir(d.Pos.Filename)] = true
	}
	locks := make(map[*model.Package][]change)
	old := make(map[*model.Package][]byte)
	var files []*model.Package // each is one file
	for _, pkg := range loaded.Packages {
		outputs := slices.Concat([]*model.Package{pkg}, pkg.Clients)
		out.Packages = append(out.Packages, pkg.Path)
		for _, p := range outputs {
			p.Tool = Version()
		}
		files = append(files, outputs...)
		whole := !slices.ContainsFunc(outputs, func(p *model.Package) bool { return holes[p.Dir] })
		if whole {
			lock, err := adopt(pkg.Dir, pkg, out)
			if err != nil {
				return nil, err
			}
			locks[pkg] = lock
		}
		for _, p := range outputs {
			content, err := existing(filepath.Join(p.Dir, model.OutputName), out)
			if err != nil {
				return nil, err
			}
			old[p] = content
		}
	}
	slices.Sort(out.Packages)
	var changes []change
	if len(out.Diagnostics) == 0 {
		printed := printAll(files, old)
		for _, pkg := range files {
			p := printed[pkg]
			switch {
			case p.err != nil:
				return nil, p.err
			case !bytes.Equal(p.content, old[pkg]):
				changes = append(changes, change{filepath.Join(pkg.Dir, model.OutputName), p.content, old[pkg]})
			case len(locks[pkg]) == 0:
				out.UpToDate++
			}
			changes = append(changes, locks[pkg]...)
		}
	}
	bare, err := planBare(loaded.Bare, holes, out)
	return append(changes, bare...), err
}

// planBare plans to remove generated files from folders without entities. It skips the folders in
// holes, where a mistake may hide an entity.
func planBare(dirs []string, holes map[string]bool, out *Outcome) ([]change, error) {
	var changes []change
	for _, dir := range dirs {
		if holes[dir] {
			continue
		}
		path := filepath.Join(dir, model.OutputName)
		if old, err := os.ReadFile(path); err == nil && load.Generated(old) {
			changes = append(changes, change{path: path})
		}
		lock, err := adopt(dir, nil, out)
		if err != nil {
			return nil, err
		}
		changes = append(changes, lock...)
	}
	return changes, nil
}

type printing struct {
	content []byte
	err     error
}

// printAll prints GOMAXPROCS files at a time, because formatting takes most of a run's time. It
// skips files that would not change.
func printAll(packages []*model.Package, old map[*model.Package][]byte) map[*model.Package]*printing {
	printed := make(map[*model.Package]*printing, len(packages))
	for _, pkg := range packages {
		printed[pkg] = &printing{}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for pkg, p := range printed {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if isCurrent(pkg, old[pkg]) {
				p.content = old[pkg]
				return
			}
			if p.content, p.err = templates.File(pkg); p.err == nil {
				remember(pkg, p.content)
			}
		})
	}
	wg.Wait()
	return printed
}

// existing returns the content of the generated file at path, or nil if there is no file. It adds a
// diagnostic to out if the file was not generated.
func existing(path string, out *Outcome) ([]byte, error) {
	old, err := os.ReadFile(path)
	old = contract.UnixLines(old)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("generate: %w", err)
	case !load.Generated(old):
		out.Diagnostics = append(out.Diagnostics, load.Diagnostic{
			Pos:     token.Position{Filename: path, Line: 1, Column: 1},
			Code:    load.CodeForeign,
			Message: "this file was not generated, and stands where the output goes",
			Remedy:  "rename it",
		})
	}
	return old, nil
}

// apply replaces or removes the file atomically.
func (c change) apply() error {
	if c.content == nil {
		if err := os.Remove(c.path); err != nil {
			return fmt.Errorf("generate: %w", err)
		}
		return nil
	}
	err := os.MkdirAll(filepath.Dir(c.path), 0o755) // the folder of a client's package may not exist yet
	if err == nil {
		err = writeAtomic(c.path, c.content)
	}
	if err != nil {
		return fmt.Errorf("generate %s: %w", c.path, err)
	}
	return nil
}

func writeAtomic(path string, content []byte) (err error) {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	// The go command ignores files whose names begin with a dot.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// gcPercent lets the heap grow to five times its live size, up to memoryLimit. By default the
// collector takes a third of a large first run's time, because most allocations live until the
// run's end.
const (
	gcPercent   = 400
	memoryLimit = 1 << 30
)

// Tune sets the garbage collector for a process that generates code and exits. GOGC and GOMEMLIMIT
// in the environment take precedence.
func Tune() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

package load

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/tools/go/gcexportdata"
	"golang.org/x/tools/go/packages"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// Options choose the packages to load.
type Options struct {
	Dir      string   // where patterns start; "" is the working directory
	Patterns []string // as of go list; none means "."
	Tags     string   // build tags, comma-separated
	Env      []string // nil: the environment of the process
}

// A loader reads requested packages from source, and imports from export data. The go command does
// not compile the requested packages: their generated files are large and may be stale. Imports
// that do not compile are also read from source.
type loader struct {
	config  *packages.Config
	roots   map[string]*packages.Package // by import path
	clients map[string]*packages.Package // clients' packages that directives name, by import path
	sources map[string]*packages.Package // imports without export data
	exports map[string]string            // files of export data, by import path
	files   map[string][]string          // sources of imports, by import path
	surveys map[string]survey            // by import path
	// annotated are imports whose source was parsed with comments, by import path.
	annotated map[string]*packages.Package
	// checked are the packages that have been type-checked.
	checked  map[*packages.Package]bool
	imported map[string]*types.Package
}

// loadPackages loads and returns the packages that match patterns. It also loads the packages for
// clients that directives in these packages name; the loader has them, too.
func loadPackages(ctx context.Context, o Options, patterns []string) (*loader, []*packages.Package, error) {
	l := &loader{
		config:  &packages.Config{Context: ctx, Dir: o.Dir, Env: o.Env, Fset: token.NewFileSet()},
		roots:   make(map[string]*packages.Package),
		clients: make(map[string]*packages.Package),
		sources: make(map[string]*packages.Package),
		exports: make(map[string]string),
		files:   make(map[string][]string),
		surveys: make(map[string]survey), annotated: make(map[string]*packages.Package),
		checked:  make(map[*packages.Package]bool),
		imported: map[string]*types.Package{"unsafe": types.Unsafe},
	}
	if o.Tags != "" {
		l.config.BuildFlags = []string{"-tags=" + o.Tags}
	}
	l.config.Mode = packages.NeedName | packages.NeedFiles | packages.NeedModule
	found, err := packages.Load(l.config, patterns...)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range found {
		l.roots[p.PkgPath] = p
	}
	l.parseAll(found, parseFile)
	clients, err := l.findClients(found)
	if err != nil {
		return nil, nil, err
	}
	all := slices.Concat(found, clients)
	if err := l.findImports(all); err != nil {
		return nil, nil, err
	}
	for _, p := range all {
		l.check(p)
	}
	slices.SortFunc(found, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
	return l, found, nil
}

// findClients loads the packages for clients that directives in list name. It returns those that
// exist and were not loaded before. For a package that does not exist yet, the loader gets only the
// path.
func (l *loader) findClients(list []*packages.Package) ([]*packages.Package, error) {
	var wanted []string
	for _, path := range clientPaths(list) {
		if p := l.roots[path]; p != nil {
			l.clients[path] = p
		} else {
			wanted = append(wanted, path)
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	found, err := packages.Load(l.config, wanted...)
	if err != nil {
		return nil, fmt.Errorf("packages of clients: %w", err)
	}
	var existing []*packages.Package
	for _, p := range found {
		if len(p.GoFiles) == 0 {
			continue
		}
		l.roots[p.PkgPath], l.clients[p.PkgPath] = p, p
		existing = append(existing, p)
	}
	for _, path := range wanted {
		if l.clients[path] == nil {
			l.clients[path] = &packages.Package{PkgPath: path}
		}
	}
	l.parseAll(existing, parseFile)
	return existing, nil
}

type parseFunc func(fset *token.FileSet, name string, src []byte) (*ast.File, error)

func (l *loader) parseAll(list []*packages.Package, parse parseFunc) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, p := range list {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			for _, name := range p.GoFiles {
				src, err := os.ReadFile(name)
				if err != nil {
					p.Errors = append(p.Errors, packages.Error{Pos: name, Msg: err.Error(), Kind: packages.ParseError})
					continue
				}
				file, err := parse(l.config.Fset, name, src)
				p.Errors = append(p.Errors, parseErrors(name, err)...)
				if file != nil {
					p.Syntax = append(p.Syntax, file)
				}
			}
		})
	}
	wg.Wait()
	for _, p := range list {
		l.dropFormerOutput(p)
	}
}

// dropFormerOutput drops a generated file whose package was renamed. It will be generated again.
func (l *loader) dropFormerOutput(p *packages.Package) {
	isOutput := func(file *ast.File) bool { // only its package clause was parsed
		return filepath.Base(l.config.Fset.Position(file.Package).Filename) == model.OutputName && len(file.Decls) == 0
	}
	for _, file := range p.Syntax {
		if !isOutput(file) {
			p.Name = file.Name.Name
		}
	}
	p.Syntax = slices.DeleteFunc(p.Syntax, func(file *ast.File) bool { return isOutput(file) && file.Name.Name != p.Name })
}

func parseErrors(name string, err error) []packages.Error {
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		if err == nil {
			return nil
		}
		return []packages.Error{{Pos: name, Msg: err.Error(), Kind: packages.ParseError}}
	}
	var errs []packages.Error
	for _, e := range list {
		errs = append(errs, packages.Error{Pos: e.Pos.String(), Msg: e.Msg, Kind: packages.ParseError})
	}
	return errs
}

func parseWhole(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
	return parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
}

// findImports finds the export data of imports. An import without export data does not compile:
// findImports parses it, together with its own imports.
func (l *loader) findImports(list []*packages.Package) error {
	for len(list) > 0 {
		wanted := l.imports(list)
		if len(wanted) == 0 {
			return nil
		}
		config := *l.config
		config.Mode = packages.NeedName | packages.NeedFiles | packages.NeedExportFile
		found, err := packages.Load(&config, wanted...)
		if err != nil {
			return fmt.Errorf("imports: %w", err)
		}
		list = nil
		for _, p := range found {
			l.files[p.PkgPath] = p.GoFiles
			if p.ExportFile != "" {
				l.exports[p.PkgPath] = p.ExportFile
			} else if len(p.GoFiles) > 0 {
				l.sources[p.PkgPath] = p
				list = append(list, p)
			}
		}
		l.parseAll(list, parseWhole)
	}
	return nil
}

func (l *loader) imports(list []*packages.Package) []string {
	var wanted []string
	for _, p := range list {
		for _, file := range p.Syntax {
			for _, spec := range file.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				known := err != nil || path == "C" || path == "unsafe" || l.roots[path] != nil || l.sources[path] != nil || l.exports[path] != ""
				if !known {
					wanted = append(wanted, path)
				}
			}
		}
	}
	slices.Sort(wanted)
	return slices.Compact(wanted)
}

// check determines a package's types. It keeps type errors, which matter only where the model needs
// them.
func (l *loader) check(p *packages.Package) {
	if l.checked[p] {
		return
	}
	l.checked[p] = true
	p.TypesInfo = &types.Info{
		Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object),
	}
	config := types.Config{
		IgnoreFuncBodies: true, FakeImportC: true, Importer: l,
		Sizes: types.SizesFor("gc", runtime.GOARCH),
		Error: func(err error) {
			if e, ok := errors.AsType[types.Error](err); ok {
				p.TypeErrors = append(p.TypeErrors, e)
			}
		},
	}
	p.Types, _ = config.Check(p.PkgPath, l.config.Fset, p.Syntax, p.TypesInfo)
}

// Import returns the types of the package at path, as [types.Importer] requires.
func (l *loader) Import(path string) (*types.Package, error) {
	source := l.roots[path]
	if source == nil {
		source = l.sources[path]
	}
	if source != nil {
		l.check(source)
		if source.Types == nil {
			return nil, fmt.Errorf("import %s: import cycle", path)
		}
		return source.Types, nil
	}
	if p := l.imported[path]; p != nil && p.Complete() {
		return p, nil
	}
	f, err := os.Open(l.exports[path])
	if err != nil {
		return nil, fmt.Errorf("import %s: not found", path)
	}
	defer f.Close() //nolint:errcheck // it was only read
	// The compiler writes archives up to Go 1.27 and bare export data from then on.
	// Only this reader of archives can share imported packages with those checked
	// from source.
	//lint:ignore SA1019 needed as long as the go command writes archives
	r, err := gcexportdata.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", path, err)
	}
	return gcexportdata.Read(r, l.config.Fset, l.imported, path)
}

// sourceOf returns an imported package's files, or nil for the standard library. inModule is true
// for a package of the user's module.
func (l *loader) sourceOf(path string, inModule bool) []*ast.File {
	if p := l.roots[path]; p != nil {
		return p.Syntax
	}
	if p := l.annotated[path]; p != nil {
		return p.Syntax
	}
	p := &packages.Package{PkgPath: path, GoFiles: l.files[path]}
	l.annotated[path] = p
	first, _, _ := strings.Cut(path, "/")
	switch {
	case len(p.GoFiles) > 0 && (inModule || strings.Contains(first, ".")):
	case inModule: // no loaded package imports it directly
		config := *l.config
		config.Mode = packages.NeedName | packages.NeedFiles
		if found, err := packages.Load(&config, path); err == nil && len(found) == 1 {
			p.GoFiles = found[0].GoFiles
		}
	default:
		p.GoFiles = nil // the standard library has no directives of shardgen
	}
	l.parseAll([]*packages.Package{p}, parseFile)
	return p.Syntax
}

func (l *loader) importNamed(name string, file *ast.File) *types.Package {
	if err := l.findImports([]*packages.Package{{Syntax: []*ast.File{file}}}); err != nil {
		return nil
	}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil || spec.Name != nil && spec.Name.Name != name {
			continue
		}
		p, err := l.Import(path)
		if err == nil && (spec.Name != nil || p.Name() == name) {
			return p
		}
	}
	return nil
}

// parseFile parses a file. It keeps only the package clause of a generated file, which may be
// stale.
func parseFile(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
	m := parser.SkipObjectResolution | parser.ParseComments
	if filepath.Base(name) == model.OutputName && Generated(src) {
		m = parser.PackageClauseOnly
	}
	return parser.ParseFile(fset, name, src, m)
}

// Generated reports whether src is output of this generator.
func Generated(src []byte) bool {
	return model.Generated(string(src))
}

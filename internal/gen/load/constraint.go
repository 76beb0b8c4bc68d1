package load

import (
	"go/ast"
	"go/build/constraint"
	"path/filepath"
	"slices"
	"strings"
)

// The operating systems and architectures that a file's name may contain, as in x_linux_arm64.go.
// The lists have those that the command "go help buildconstraint" prints, and those that the go
// command reserves.
var (
	systems = []string{
		"aix", "android", "darwin", "dragonfly", "freebsd", "hurd", "illumos", "ios", "js", "linux", "nacl", "netbsd", "openbsd",
		"plan9", "solaris", "wasip1", "windows", "zos",
	}
	architectures = []string{
		"386", "amd64", "amd64p32", "arm", "armbe", "arm64", "arm64be", "loong64", "mips", "mipsle", "mips64", "mips64le", "mips64p32", "mips64p32le",
		"ppc", "ppc64", "ppc64le", "riscv", "riscv64", "s390", "s390x", "sparc", "sparc64", "wasm",
	}
)

func constraintOf(name string, file *ast.File) string {
	var parts []string
	words := strings.Split(strings.TrimSuffix(filepath.Base(name), ".go"), "_")
	if n := len(words); n > 1 {
		last := words[n-1]
		isArchitecture := slices.Contains(architectures, last)
		if isArchitecture && n > 2 && slices.Contains(systems, words[n-2]) {
			parts = append(parts, words[n-2])
		}
		if isArchitecture || slices.Contains(systems, last) {
			parts = append(parts, last)
		}
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if c.Pos() > file.Package || !constraint.IsGoBuild(c.Text) {
				continue
			}
			if x, err := constraint.Parse(c.Text); err == nil {
				if _, isOr := x.(*constraint.OrExpr); isOr && len(parts) > 0 {
					parts = append(parts, "("+x.String()+")")
				} else {
					parts = append(parts, x.String())
				}
			}
		}
	}
	return strings.Join(parts, " && ")
}

func when(constraint string) string {
	if constraint == "" {
		return "always"
	}
	return "when " + constraint
}

// constrain copies the entities' build constraint to the generated file, and reports differing
// constraints.
func constrain(s *directives) {
	files := make(map[string]*ast.File)
	for _, file := range s.pkg.Syntax {
		files[s.fset.Position(file.Package).Filename] = file
	}
	for i, m := range s.marked {
		name := s.fset.Position(m.spec.Pos()).Filename
		c := constraintOf(name, files[name])
		switch {
		case i == 0:
			s.model.Constraint = c
		case c != s.model.Constraint:
			first := s.marked[0].object.Name()
			s.add(m.spec.Pos(), CodeEntity, "give the files the same constraint, or one of the entities a package of its own",
				"%s: is built %s, and %s %s: one file is generated for both", m.object.Name(), when(c), first, when(s.model.Constraint))
		}
	}
}

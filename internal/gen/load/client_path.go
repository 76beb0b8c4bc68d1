package load

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const clientOption = "client"

// clientPaths returns the sorted paths of the clients' packages that directives name. It skips
// malformed paths.
func clientPaths(list []*packages.Package) []string {
	var paths []string
	for _, p := range list {
		for _, file := range p.Syntax {
			for _, group := range file.Comments {
				for _, c := range group.List {
					if path := clientPath(c); isImportPath(path) {
						paths = append(paths, path)
					}
				}
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func clientPath(c *ast.Comment) string {
	d, ok := ast.ParseDirective(c.Slash, c.Text)
	if !ok || d.Tool != "shard" || !slices.Contains(entityDirectives, d.Name) {
		return ""
	}
	return clientOf(d)
}

func clientOf(d ast.Directive) string {
	args, err := d.ParseArgs()
	if err != nil {
		return ""
	}
	for _, a := range args {
		if key, value, _ := strings.Cut(a.Arg, "="); key == clientOption {
			return value
		}
	}
	return ""
}

// importPath matches the import paths that may be passed to the go command. It excludes patterns
// and flags.
var importPath = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.~-]*(/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)*$`)

func isImportPath(s string) bool { return importPath.MatchString(s) && !strings.Contains(s, "...") }

func packageName(p string) string {
	name := path.Base(p)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(p))
	}
	return name
}

package load

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/tools/go/packages"
)

// goPackage matches the option of a .proto file that names the package of its Go code.
var goPackage = regexp.MustCompile(`(?m)^\s*option\s+go_package\s*=\s*"([^";]+)`)

// protoFile returns the .proto file for the package path, or "" if there is none. It walks all
// folders of the module, which takes long, so call it only if a package or type is missing.
func protoFile(from *packages.Package, path string) string {
	m := from.Module
	if m == nil || m.Dir == "" {
		return ""
	}
	found := ""
	rest, within := strings.CutPrefix(path, m.Path)
	if files, err := filepath.Glob(filepath.Join(m.Dir, filepath.FromSlash(rest), "*.proto")); err == nil && within && len(files) > 0 {
		found = files[0]
	}
	_ = filepath.WalkDir(m.Dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || found != "":
			return fs.SkipAll
		case d.IsDir() && name != m.Dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".proto":
			return nil
		}
		src, err := os.ReadFile(name)
		if option := goPackage.FindSubmatch(src); err == nil && option != nil && string(option[1]) == path {
			found = name
		}
		return nil
	})
	short, err := filepath.Rel(m.Dir, found)
	if found == "" || err != nil {
		return ""
	}
	return filepath.ToSlash(short)
}

// notGenerated returns the remedy if a type is unknown because protobuf's code is not generated
// yet, or "". why is the type checker's message.
func (s *source) notGenerated(why string) string {
	name, ok := strings.CutPrefix(why, "undefined: ")
	if !ok {
		return ""
	}
	path := s.pkg.PkgPath
	if qualifier, _, ok := strings.Cut(name, "."); ok {
		path = ""
		for _, p := range s.pkg.Types.Imports() {
			if p.Name() == qualifier {
				path = p.Path()
			}
		}
	}
	if file := protoFile(s.pkg, path); path != "" && file != "" {
		return generateRemedy(file)
	}
	return ""
}

func generateRemedy(file string) string {
	return "generate the Go code of " + file + " first, by protoc or buf"
}

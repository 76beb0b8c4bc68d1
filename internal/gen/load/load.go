package load

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// A Result is what Load found in the packages.
type Result struct {
	Packages []*model.Package // those with entities, in the order of their paths
	// Bare lists the folders of packages that have no entity.
	Bare []string
	// Excluded are entities in files that the build constraints leave out. Their generated files
	// are left unchanged.
	Excluded    []Excluded
	Diagnostics []Diagnostic
}

// Load reads the packages that o selects. It returns an error if it cannot read one of the packages
// at all. Mistakes in the source are in [Result.Diagnostics].
func Load(ctx context.Context, o Options) (*Result, error) {
	patterns := o.Patterns
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	l, found, err := loadPackages(ctx, o, patterns)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", strings.Join(patterns, " "), err)
	}
	result := &Result{}
	r := &report{fset: l.config.Fset}
	claimed := make(map[string]string) // owners' paths, by the path of the client's package
	var bare []*unit
	for _, p := range found {
		excluded := excludedIn(p)
		result.Excluded = append(result.Excluded, excluded...)
		if len(p.GoFiles) == 0 && len(excluded) > 0 {
			continue
		}
		if len(p.GoFiles) == 0 && len(p.Syntax) == 0 {
			if err := listError(p); err != nil {
				return nil, fmt.Errorf("load %s: %w", p.PkgPath, err)
			}
			continue
		}
		s := loadPackage(r, p, l, claimed)
		if len(s.model.Entities) > 0 {
			result.Packages = append(result.Packages, s.model)
		} else if len(excluded) == 0 {
			bare = append(bare, s)
		}
	}
	for _, s := range bare {
		if claimed[s.pkg.PkgPath] != "" {
			continue
		}
		s.errorsAlone()
		if s.model.Owner == "" || l.roots[s.model.Owner] != nil {
			result.Bare = append(result.Bare, s.model.Dir)
		}
	}
	result.Diagnostics = r.sorted()
	return result, nil
}

func listError(p *packages.Package) error {
	var errs []error
	for _, e := range p.Errors {
		errs = append(errs, errors.New(e.Msg))
	}
	return errors.Join(errs...)
}

package load

import (
	"cmp"
	"go/constant"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// constants returns the typed constants of t, or nil if another module declares t. If another
// package of the module declares t, it returns only the exported constants. They are sorted by the
// text of their values, shorter texts first.
func constants(from *packages.Package, t types.Type) []model.Constant {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil || !inModule(from, named.Obj().Pkg()) {
		return nil
	}
	u, ok := named.Underlying().(*types.Basic)
	if !ok {
		return nil
	}
	var list []model.Constant
	scope := named.Obj().Pkg().Scope()
	for _, name := range scope.Names() {
		k, ok := scope.Lookup(name).(*types.Const)
		if !ok || !types.Identical(k.Type(), named) || name == "_" {
			continue
		}
		value := constantValue(k.Val(), u)
		if (from.Types == k.Pkg() || k.Exported()) && value != "" {
			list = append(list, model.Constant{Name: name, Value: value})
		}
	}
	slices.SortFunc(list, func(a, b model.Constant) int {
		return cmp.Or(cmp.Compare(len(a.Value), len(b.Value)), strings.Compare(a.Value, b.Value), strings.Compare(a.Name, b.Name))
	})
	return list
}

// constantValue returns a constant as the contract writes it, or "". Strings are quoted, without
// spaces.
func constantValue(v constant.Value, u *types.Basic) string {
	switch {
	case v.Kind() == constant.Unknown:
		return ""
	case u.Info()&types.IsFloat != 0:
		size := 64
		f, _ := constant.Float64Val(v)
		if u.Kind() == types.Float32 {
			size = 32
			g, _ := constant.Float32Val(v)
			f = float64(g)
		}
		return strconv.FormatFloat(f, 'g', -1, size)
	case v.Kind() == constant.String:
		return model.QuoteValue(constant.StringVal(v))
	}
	return v.ExactString()
}

func inModule(from *packages.Package, p *types.Package) bool {
	if p == from.Types {
		return true
	}
	m := from.Module
	return m != nil && (p.Path() == m.Path || strings.HasPrefix(p.Path(), m.Path+"/"))
}

package load

import (
	"cmp"
	"go/constant"
	"go/types"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// bounds are the names of constants that are not values of an enumeration but bounds of
// it, such as their number; they change when a value is added.
var bounds = regexp.MustCompile(`(?i)^_?(num|max|min|count|last|first|end)|(count|max|min|last|end)$`)

// constants are the named values of an integer type, if the user's module declares it
// as an enumeration: see isEnumeration. Of another package only exported names count.
func constants(from *packages.Package, t types.Type) []model.Constant {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil || !inModule(from, named.Obj().Pkg()) {
		return nil
	}
	if u, ok := named.Underlying().(*types.Basic); !ok || u.Info()&types.IsInteger == 0 {
		return nil
	}
	var list []model.Constant
	scope := named.Obj().Pkg().Scope()
	for _, name := range scope.Names() {
		k, ok := scope.Lookup(name).(*types.Const)
		if !ok || !types.Identical(k.Type(), named) || name == "_" || bounds.MatchString(name) {
			continue
		}
		if (from.Types == k.Pkg() || k.Exported()) && k.Val().Kind() == constant.Int {
			list = append(list, model.Constant{Name: name, Value: k.Val().ExactString()})
		}
	}
	if !isEnumeration(list) {
		return nil
	}
	slices.SortFunc(list, func(a, b model.Constant) int {
		return cmp.Or(integer(a).Cmp(integer(b)), strings.Compare(a.Name, b.Name))
	})
	return list
}

// inModule reports whether a package belongs to the module of the user's package.
func inModule(from *packages.Package, p *types.Package) bool {
	if p == from.Types {
		return true
	}
	m := from.Module
	return m != nil && (p.Path() == m.Path || strings.HasPrefix(p.Path(), m.Path+"/"))
}

func integer(c model.Constant) *big.Int {
	n, _ := new(big.Int).SetString(c.Value, 10)
	return n
}

// isEnumeration reports whether there are at least two numbers, and they are single bits, or
// at least half of the numbers from the lowest to the highest, as iota makes them.
func isEnumeration(list []model.Constant) bool {
	numbers := make(map[string]bool)
	bits := true
	var lowest, highest *big.Int
	for _, k := range list {
		n := integer(k)
		numbers[k.Value] = true
		bits = bits && n.Sign() >= 0 && (n.Sign() == 0 || n.TrailingZeroBits() == uint(n.BitLen()-1))
		if lowest == nil || n.Cmp(lowest) < 0 {
			lowest = n
		}
		if highest == nil || n.Cmp(highest) > 0 {
			highest = n
		}
	}
	if len(numbers) < 2 {
		return false
	}
	span := new(big.Int).Sub(highest, lowest)
	return bits || span.Cmp(big.NewInt(int64(2*len(numbers)))) < 0
}

package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// drivers are the packages that run the cores in a real process. simulators are those that run the
// cores in virtual time.
var (
	drivers    = []string{"runtime", "internal/driver/node", "internal/driver/singlehost", "internal/driver/durablehost", "internal/driver/peers", "internal/driver/runner"}
	simulators = []string{"internal/sim/sharding", "internal/sim/singleton", "internal/sim/durable"}
)

// alike is the number of functions of lower packages that two functions must both call to count as
// copies.
const alike = 2

// A mirror is a pair of a simulator's function and the driver's function whose decisions it copies,
// with the reason.
type mirror struct{ sim, driver, why string }

// A function is a declared function with the functions of this module that it calls.
type function struct {
	name  string // package path from the root, and Type.Method
	calls map[string]bool
}

// functionsOf returns the functions of a package. Each has the functions that it calls in other
// packages of this module, except calls that [tells] refuses.
func functionsOf(p *packages.Package, dir string) (found []function) {
	for _, file := range p.Syntax {
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			f := function{dir + "." + fn.Name.Name, map[string]bool{}}
			if fn.Recv != nil {
				f.name = dir + "." + receiverName(fn) + "." + fn.Name.Name
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if callee, ok := p.TypesInfo.Uses[id].(*types.Func); ok && tells(callee, dir) {
						f.calls[callee.FullName()] = true
					}
				}
				return true
			})
			found = append(found, f)
		}
	}
	return found
}

// plain are names of functions that do not make their callers copies, because they only read a
// value. Getters of messages do not, either.
var plain = []string{
	"String", "Error", "Peer", "Now", "Init", "Name", "Kind", "IsZero", "Is", "MakeEpoch",
	"State", "Epoch", "MoveEpoch", "Home", "Busy", "Waiting",
}

// tells reports whether a call of callee counts in the comparison of functions.
func tells(callee *types.Func, dir string) bool {
	if callee.Pkg() == nil || slices.Contains(plain, callee.Name()) || strings.HasPrefix(callee.Name(), "Get") {
		return false
	}
	path, ours := strings.CutPrefix(callee.Pkg().Path(), module+"/")
	driver := slices.Contains(drivers, path) && !strings.Contains(callee.FullName(), "peers.Stream)") // simulators run Streams, too
	return ours && path != dir && !driver && !slices.Contains(simulators, path)
}

// receiverName returns the name of the type of a method's receiver.
func receiverName(fn *ast.FuncDecl) string {
	e := fn.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return "?"
		}
	}
}

// loadFunctions returns the functions of the packages in dirs, including test functions if tests is
// true.
func loadFunctions(t *testing.T, dirs []string, tests bool) (all []function) {
	t.Helper()
	patterns := make([]string, len(dirs))
	for i, d := range dirs {
		patterns[i] = "./" + d
	}
	seen := map[string]bool{}
	for _, p := range loadTypedTests(t, tests, patterns...) {
		dir := strings.TrimPrefix(p.PkgPath, module+"/")
		if !slices.Contains(dirs, dir) {
			continue
		}
		for _, f := range functionsOf(p, dir) {
			if !seen[f.name] { // the loader returns a package again with its tests
				seen[f.name] = true
				all = append(all, f)
			}
		}
	}
	return all
}

// TestSimulatorsMirrorNothing checks that simulators run the code that ships. A simulator's
// function that calls what a driver's function calls copies its decisions. Then both must call one
// function without I/O, or mirrors must list the pair with a reason.
func TestSimulatorsMirrorNothing(t *testing.T) {
	real, simulated := loadFunctions(t, drivers, false), loadFunctions(t, simulators, true)
	if len(real) == 0 || len(simulated) == 0 {
		t.Fatalf("%d functions of drivers, %d of simulators", len(real), len(simulated))
	}
	listed := map[[2]string]bool{}
	for _, m := range mirrors {
		listed[[2]string{m.sim, m.driver}] = false
	}
	for _, s := range simulated {
		for _, d := range real {
			shared := sharedCalls(s, d)
			if len(shared) < alike {
				continue
			}
			pair := [2]string{s.name, d.name}
			if _, ok := listed[pair]; ok {
				listed[pair] = true
				continue
			}
			t.Errorf("%s calls %v as %s does: have both run the same code, or name the pair in mirrors", s.name, shared, d.name)
		}
	}
	for _, pair := range slices.SortedFunc(maps.Keys(listed), func(a, b [2]string) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		if !listed[pair] {
			t.Errorf("%s mirrors %s no more: take the pair off the list", pair[0], pair[1])
		}
	}
	if len(mirrors) != maxMirrors {
		t.Errorf("%d mirrors, maxMirrors is %d: the list may only shrink", len(mirrors), maxMirrors)
	}
	if len(standIns) != maxStandIns {
		t.Errorf("%d stand-ins, maxStandIns is %d: the list may only shrink", len(standIns), maxStandIns)
	}
	declared := map[string]bool{}
	for _, f := range slices.Concat(real, simulated) {
		declared[f.name] = true
	}
	for _, s := range standIns {
		if !declared[s.sim] || !declared[s.driver] || s.why == "" {
			t.Errorf("%s in place of %s: one of them is no more, or there is no reason", s.sim, s.driver)
		}
	}
}

func sharedCalls(a, b function) (shared []string) {
	for name := range a.calls {
		if b.calls[name] {
			shared = append(shared, strings.ReplaceAll(name, module+"/", ""))
		}
	}
	slices.Sort(shared)
	return shared
}

package arch

import (
	"go/ast"
	"maps"
	"slices"
	"testing"
)

const (
	driver    = "runtime"
	simulator = "internal/sim/sharding"
)

// homonyms are methods of the simulator that share only their name with methods of the driver.
var homonyms = map[string]string{
	"ask":      "the oracle notes a request; the driver's asks for homes on its control loop",
	"begin":    "the oracle and the world begin turns and processes of the simulation",
	"call":     "a thread's call; the driver's takes one from a lane",
	"check":    "the world's invariants; the driver's are options",
	"encoded":  "a thread's try of a call; the driver's encodes a command",
	"end":      "ends a turn, a process or an operation of the simulation",
	"ended":    "the membership's simulation has ended a process",
	"fail":     "reports a broken promise",
	"held":     "counts what waits at the process's routes; the driver's lists an operator's rows",
	"leased":   "asks the simulated membership",
	"link":     "the session with a peer; the driver's is the connection to the broker",
	"local":    "the type of a route's local target",
	"log":      "writes the trace",
	"lose":     "the oracle notes a loss",
	"next":     "a thread's next step",
	"now":      "the simulated membership's time",
	"one":      "a chance of the seed",
	"over":     "a call's deadline in the world's time",
	"pause":    "stops a process for a while",
	"publish":  "publishes the process's sessions; the driver's publishes a lane's answers",
	"rest":     "ends the faults, or encodes an entity's state; the driver's are passivation",
	"resume":   "ends a process's pause",
	"run":      "runs the world, or a turn that is simulated",
	"stop":     "ends a process for good",
	"turn":     "runs a turn that is simulated",
	"waitsFor": "describes what a process waits for, for a failure's text",
	"wake":     "makes an entity's value",
}

// methodsIn returns the methods that a package declares, with their receivers.
func methodsIn(files []*sourceFile, dir string, tests bool) map[string][]string {
	found := map[string][]string{}
	for _, f := range files {
		if f.dir != dir || f.test != tests || f.nested {
			continue
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				found[fn.Name.Name] = append(found[fn.Name.Name], receiverName(fn))
			}
		}
	}
	return found
}

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

// contracts are the methods of the interfaces that packages below both declare: driver and
// simulator implement them side by side.
func contracts(files []*sourceFile) map[string]bool {
	names := map[string]bool{"String": true}
	for _, f := range files {
		if f.test || f.nested || f.dir == driver || !under(f.dir, "internal") && !under(f.dir, "transport") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if it, ok := n.(*ast.InterfaceType); ok {
				for _, m := range it.Methods.List {
					for _, name := range m.Names {
						names[name.Name] = true
					}
				}
			}
			return true
		})
	}
	return names
}

// TestSimulatorMirrorsNothing: the simulation of sharding runs the code that ships. It declares
// no method that repeats the work of the driver's method of that name.
func TestSimulatorMirrorsNothing(t *testing.T) {
	files := loadTree(t)
	ours, theirs := methodsIn(files, simulator, true), methodsIn(files, driver, false)
	if len(ours) == 0 || len(theirs) == 0 {
		t.Fatalf("%d methods in %s, %d in %s", len(ours), simulator, len(theirs), driver)
	}
	shared := contracts(files)
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if theirs[name] == nil || shared[name] || homonyms[name] != "" {
			continue
		}
		t.Errorf("%s of %v in %s is also one of %v in %s: have both run the same code, or say in homonyms why they differ",
			name, ours[name], simulator, theirs[name], driver)
	}
	for _, name := range slices.Sorted(maps.Keys(homonyms)) {
		if ours[name] == nil || theirs[name] == nil {
			t.Errorf("%s is not a method of both any more: take it off the list", name)
		}
	}
}

package templates

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/gen/model"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden prints each part of a file alone, and compares it with the golden
// file beside its emitter.
func TestGolden(t *testing.T) {
	parts := []struct {
		golden string
		emit   func(e *emitter, n *model.Entity)
	}{
		{"api.golden", func(e *emitter, n *model.Entity) { apiEmitter{e}.api(n) }},
		{"client.golden", func(e *emitter, n *model.Entity) { clientEmitter{e}.client(n) }},
		{"extractor.golden", func(e *emitter, n *model.Entity) { extractorEmitter{e}.extractor(n) }},
		{"host.golden", func(e *emitter, n *model.Entity) {
			hostEmitter{e}.host(n)
			hostEmitter{e}.kind(n)
			hostEmitter{e}.glue(n)
		}},
		{"pool.golden", func(e *emitter, n *model.Entity) {
			n.Pool, n.Hash, n.State, n.Hooks, n.Methods = true, nil, nil, model.Hooks{}, n.Methods[2:]
			n.Methods[0].Read, n.ID = true, model.ID{Type: &model.Expr{Name: "string"}}
			clientEmitter{e}.client(n)
			hostEmitter{e}.host(n)
			hostEmitter{e}.kind(n)
		}},
		{"dispatch.golden", func(e *emitter, n *model.Entity) { dispatchEmitter{e}.dispatch(n) }},
		{"message.golden", func(e *emitter, n *model.Entity) { messageEmitter{e}.messages(n) }},
		{"json.golden", func(e *emitter, n *model.Entity) { n.JSON = true; jsonEmitter{e}.json(n) }},
		{"state.golden", func(e *emitter, n *model.Entity) { stateEmitter{e}.state(n) }},
		{"codec_type.golden", typesAskedBy(func(e *emitter, n *model.Entity) { messageEmitter{e}.messages(n) })},
		{"clone.golden", typesAskedBy(func(e *emitter, n *model.Entity) { clientEmitter{e}.client(n) })},
	}
	for _, p := range parts {
		t.Run(p.golden, func(t *testing.T) {
			pkg := shop()
			e := newEmitter(pkg)
			p.emit(e, pkg.Entities[0])
			got, err := e.render()
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(p.golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(p.golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s (go test ./templates -update?)", difference(got, want))
			}
		})
	}
}

// difference names the first line in which got and want differ.
func difference(got, want []byte) string {
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		line := func(lines []string) string {
			if i < len(lines) {
				return strconv.Quote(lines[i])
			}
			return "the end"
		}
		if line(g) != line(w) {
			return fmt.Sprintf("line %d is %s, want %s", i+1, line(g), line(w))
		}
	}
	return ""
}

// typesAskedBy emits the functions of types that a part asks for, without the
// part.
func typesAskedBy(part func(*emitter, *model.Entity)) func(*emitter, *model.Entity) {
	return func(e *emitter, n *model.Entity) {
		asking := newEmitter(e.pkg)
		part(asking, n)
		e.wanted = asking.wanted
		for _, f := range e.wanted {
			e.functions[f] = nil
		}
		codecEmitter{e}.types()
	}
}

func TestGroupImports(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{
			"both kinds",
			"package p\n\nimport (\n\t\"context\"\n\tshard \"example.com/x\"\n\t\"time\"\n)\n\nvar x int\n",
			"package p\n\nimport (\n\t\"context\"\n\t\"time\"\n\n\tshard \"example.com/x\"\n)\n\nvar x int\n",
		},
		{"one kind", "package p\n\nimport (\n\t\"context\"\n\t\"time\"\n)\n", "package p\n\nimport (\n\t\"context\"\n\t\"time\"\n)\n"},
		{"none", "package p\n", "package p\n"},
	}
	for _, tt := range tests {
		if got := string(groupImports([]byte(tt.in))); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestScope(t *testing.T) {
	e := newEmitter(shop())
	s := e.newScope()
	for _, tt := range []struct{ name, otherwise, want string }{
		{"n", "arg", "n"},
		{"n", "arg", "nArg"}, // cannot happen twice in one signature; still unique
		{"_", "arg", "arg"},
		{"", "arg", "arg2"},
		{"time", "arg", "timeArg"}, // an import
		{"len", "arg", "lenArg"},   // predeclared
		{"", "type", "type2"},      // a keyword
	} {
		if got := s.keep(tt.name, tt.otherwise); got != tt.want {
			t.Errorf("keep(%q, %q) = %q, want %q", tt.name, tt.otherwise, got, tt.want)
		}
	}
}

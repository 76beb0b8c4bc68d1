package shard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/singleton"
	memorystore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport"
)

// names returns all names in a table, and in must those in which members must agree. It fails for a
// name that occurs twice.
func names[T any](t *testing.T, table []setting[T]) (all, must []string) {
	t.Helper()
	for _, s := range table {
		require.NotContains(t, all, s.name)
		all = append(all, s.name)
		if s.value != nil {
			must = append(must, s.name)
		}
	}
	slices.Sort(all)
	return all, must
}

// fields returns the fields of options by their paths, including those of nested options.
func fields(prefix string, t reflect.Type) (paths []string) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Type.Kind() == reflect.Struct && strings.HasPrefix(f.Type.PkgPath(), "github.com/shardgen/") {
			paths = append(paths, fields(prefix+f.Name+".", f.Type)...)
		} else {
			paths = append(paths, prefix+f.Name)
		}
	}
	return paths
}

// TestEverySettingIsInATable: the tables say for every field of Config, every option of a type, and
// every option of the directives whether members must agree on it.
func TestEverySettingIsInATable(t *testing.T) {
	all, _ := names(t, clusterSettings)
	all = slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, "Config.") }) // such as formats
	want := fields("Config.", reflect.TypeFor[Config]())
	slices.Sort(want)
	require.Equal(t, want, all, "clusterSettings")

	all, _ = names(t, optionSettings)
	want = hostOptions(t)
	slices.Sort(want)
	require.Equal(t, want, all, "optionSettings")

	all, _ = names(t, directiveSettings)
	want = append(directiveOptions(t), hostmeta.Package, "singleton") // the place of the struct, and the directive itself
	slices.Sort(want)
	require.Equal(t, want, all, "directiveSettings")
}

// hostOptions returns the functions of this package that return a HostOption. For a function that
// takes a struct of options, it returns the struct's fields instead; for Remember, both.
func hostOptions(t *testing.T) (options []string) {
	structs := map[string]reflect.Type{
		"singleton.Options": reflect.TypeFor[singleton.Options](), "RememberOptions": reflect.TypeFor[RememberOptions](),
	}
	sources, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, source := range sources {
		if !strings.HasSuffix(source.Name(), ".go") || strings.HasSuffix(source.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source.Name(), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil || !isIdent(f.Type.Results.List[0].Type, "HostOption") {
				continue
			}
			if f.Name.Name != "Singleton" { // its fields are the settings
				options = append(options, f.Name.Name)
			}
			for _, p := range f.Type.Params.List {
				if name := types.ExprString(p.Type); strings.HasSuffix(name, "Options") {
					require.Contains(t, structs, name)
					options = append(options, fields(name+".", structs[name])...)
				}
			}
		}
	}
	return options
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// directiveOptions returns the options of //shard:entity and //shard:singleton.
func directiveOptions(t *testing.T) (found []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "../internal/gen/load/option.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR || g.Specs[0].(*ast.ValueSpec).Names[0].Name != "options" {
			continue
		}
		ast.Inspect(g, func(n ast.Node) bool {
			kv, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			for _, e := range kv.Value.(*ast.CompositeLit).Elts {
				option, err := strconv.Unquote(e.(*ast.BasicLit).Value)
				require.NoError(t, err)
				found = append(found, option)
			}
			return false
		})
	}
	require.NotEmpty(t, found)
	slices.Sort(found)
	return slices.Compact(found)
}

// TestSettingsPageHasTheTables: docs/settings.md lists the settings that must be equal.
func TestSettingsPageHasTheTables(t *testing.T) {
	page, err := os.ReadFile("../docs/settings.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n## What must be equal\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	for _, p := range []struct {
		row  string
		must func() []string
	}{
		{"the cluster", func() []string { _, must := names(t, clusterSettings); return must }},
		{"a type's directive", func() []string { _, must := names(t, directiveSettings); return must }},
		{"a type's options", func() []string { _, must := names(t, optionSettings); return must }},
	} {
		line := regexp.MustCompile(`(?m)^\| ` + p.row + ` \| (.*) \|`).FindStringSubmatch(section)
		require.NotNil(t, line, p.row)
		var listed []string
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line[1], -1) {
			listed = append(listed, m[1])
		}
		want := p.must()
		slices.Sort(want)
		slices.Sort(listed)
		require.Equal(t, want, listed, p.row)
	}
}

// TestEachClusterSettingIsCompared: a change of a field that must be equal changes the compared
// settings, also from or to its zero value. No other change does.
func TestEachClusterSettingIsCompared(t *testing.T) {
	declared := func(c Config) map[string]string {
		n := New(c)
		defer n.Close()
		_, compat := declarations(n)
		values := map[string]string{}
		for _, kv := range compat {
			values[kv.Key] = kv.Value
		}
		return values
	}
	plain := declared(Config{})
	for _, s := range clusterSettings {
		path, isField := strings.CutPrefix(s.name, "Config.")
		if !isField {
			require.Contains(t, plain, s.name)
			continue
		}
		var c Config
		field := reflect.ValueOf(&c).Elem()
		for name := range strings.SplitSeq(path, ".") {
			field = field.FieldByName(name)
		}
		if s.value == nil && field.Kind() != reflect.Int64 && field.Kind() != reflect.Int && field.Kind() != reflect.Bool && field.Kind() != reflect.String {
			continue
		}
		change(t, field)
		changed := declared(c)
		require.Equal(t, slices.Sorted(maps.Keys(plain)), slices.Sorted(maps.Keys(changed)), s.name)
		for key, value := range plain {
			switch {
			case key == s.name:
				require.NotEqual(t, value, changed[key], s.name)
			case key == "Config.Membership.AgreedAfter" && s.name == "Config.Membership.QuorumTimeout": // its default
			default:
				require.Equal(t, value, changed[key], "%s, when %s changes", key, s.name)
			}
		}
	}
}

func change(t *testing.T, field reflect.Value) {
	t.Helper()
	switch {
	case field.Type() == reflect.TypeFor[time.Duration]():
		field.SetInt(int64(977 * time.Second))
	case field.CanInt():
		field.SetInt(3)
	case field.CanUint():
		field.SetUint(1)
	case field.Kind() == reflect.Bool:
		field.SetBool(true)
	case field.Kind() == reflect.String:
		field.SetString("other")
	default:
		field.Set(reflect.ValueOf(memorystore.New().Client()))
	}
}

// TestEachTypeSettingIsCompared: two nodes that differ in one setting of a type that must be equal are
// not members of one cluster, whether they host the type or only know it.
func TestEachTypeSettingIsCompared(t *testing.T) {
	store := memorystore.New().Client()
	announced := func(singleton bool, name string, change func(declaredKind), proxy bool) membership.Member {
		n := New(Config{Name: name, Store: store})
		defer n.Close()
		var opts []HostOption
		if proxy {
			opts = append(opts, Proxy())
		}
		require.NoError(t, n.Host(codegen.Host{
			Kind: codegen.Kind{Name: "Account", Package: "p", Shards: map[bool]int{true: 1, false: 256}[singleton], HashName: "xxh64", Singleton: singleton},
			New:  func() any { return nil }, Dispatch: map[string]codegen.Method{},
		}, opts...))
		change(n.declared()[0])
		meta, _ := declarations(n)
		return membership.Member{Address: transport.Address{Name: name}, Meta: meta}
	}
	changes := map[string]func(declaredKind){
		"shards":                  func(k declaredKind) { k.Shards *= 2 },
		"hash":                    func(k declaredKind) { k.Desc.HashName = "other.Hash" },
		"package":                 func(k declaredKind) { k.Desc.Package = "other" },
		"singleton":               func(k declaredKind) { k.Desc.Singleton = !k.Desc.Singleton },
		"durable":                 func(k declaredKind) { k.Desc.Durable = !k.Desc.Durable },
		"HostRole":                func(k declaredKind) { k.options.role = "back" },
		"Handoff":                 func(k declaredKind) { k.options.Handoff.DropState = true },
		"Remember":                func(k declaredKind) { k.options.remember = &RememberOptions{} },
		"singleton.Options.Lease": func(k declaredKind) { k.options.single.Lease = true },
	}
	_, contract := names(t, directiveSettings)
	_, host := names(t, optionSettings)
	require.ElementsMatch(t, slices.Collect(maps.Keys(changes)), append(contract, host...), "add a change")
	same := func(declaredKind) {}
	for setting, change := range changes {
		for _, singleton := range []bool{false, true} {
			for _, proxy := range []bool{false, true} {
				a, b := announced(singleton, "a", same, proxy), announced(singleton, "b", change, false)
				compared := !proxy || slices.Contains(contract, setting)
				for _, diff := range []string{hostmeta.Differ(a, b), hostmeta.Differ(b, a)} {
					if !compared {
						require.Empty(t, diff, setting)
						continue
					}
					require.Contains(t, diff, ": "+setting+" is ")
					require.Contains(t, diff, " at a")
					require.Contains(t, diff, " at b")
				}
			}
		}
	}
	require.Empty(t, hostmeta.Differ(announced(false, "a", same, false), announced(false, "b", same, true)))
}

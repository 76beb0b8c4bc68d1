package gen

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shardgen/shardgen/internal/gen/model"
)

func TestModelKey(t *testing.T) {
	build := func(change func(p *model.Package, tree *model.Type)) string {
		tree := &model.Type{Name: "Tree", Shape: model.Struct, Recursive: true}
		tree.Fields = []model.Field{{Name: "Left", Number: 1, Type: tree}, {Name: "Right", Number: 2, Type: tree}}
		p := &model.Package{
			Path: "example.com/x", Types: []*model.Type{tree},
			Entities: []*model.Entity{{Name: "A", Shards: 256, Methods: []*model.Method{{Name: "Do", Doc: []string{"// Do does."}}}}},
		}
		change(p, tree)
		return modelKey(p)
	}
	first := build(func(*model.Package, *model.Type) {})
	if again := build(func(*model.Package, *model.Type) {}); again != first {
		t.Errorf("equal models have the keys %s and %s", first, again)
	}
	for name, change := range map[string]func(p *model.Package, tree *model.Type){
		"path":    func(p *model.Package, _ *model.Type) { p.Path = "example.com/y" },
		"doc":     func(p *model.Package, _ *model.Type) { p.Entities[0].Methods[0].Doc[0] = "// Does." },
		"flag":    func(p *model.Package, _ *model.Type) { p.Entities[0].Singleton = true },
		"number":  func(_ *model.Package, tree *model.Type) { tree.Fields[1].Number = 3 },
		"circle":  func(_ *model.Package, tree *model.Type) { tree.Fields[1].Type = &model.Type{} },
		"nothing": func(p *model.Package, _ *model.Type) { p.Entities[0].Methods = nil },
		"moved":   func(p *model.Package, _ *model.Type) { p.Entities[0].Name, p.Entities[0].Kind = "", "A" },
	} {
		if build(change) == first {
			t.Errorf("%s: another model has the same key", name)
		}
	}
}

// TestCache checks that a changed generated file is printed again, whatever the cache says.
func TestCache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	dir := module(t, "example.com/thing", map[string]string{"thing.go": thing})
	clean(t, options(dir))
	good := read(t, dir, model.OutputName)
	if out := clean(t, options(dir)); out.UpToDate != 1 {
		t.Errorf("a second run wrote %v", out.Written)
	}
	write(t, dir, model.OutputName, good+"\n// changed\n")
	if out := clean(t, options(dir)); len(out.Written) != 1 || read(t, dir, model.OutputName) != good {
		t.Errorf("a changed file was left alone: wrote %v", out.Written)
	}
	// The cache may hold any bytes.
	caches, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "shardgen", "*"))
	if home, err2 := os.UserCacheDir(); err2 == nil && len(caches) == 0 {
		caches, err = filepath.Glob(filepath.Join(home, "shardgen", "*"))
	}
	if err != nil || len(caches) != 1 {
		t.Fatalf("cache files %v, %v; want one", caches, err)
	}
	if err := os.WriteFile(caches[0], []byte("nonsense"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := clean(t, options(dir)); out.UpToDate != 1 {
		t.Errorf("with a broken cache: wrote %v", out.Written)
	}
}

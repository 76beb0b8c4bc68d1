package gen

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/gen/contract"
	"github.com/shardgen/shardgen/internal/gen/model"
)

const owner = `package owner

import (
	"context"
	"net/http"

	"example.com/apart/api"
)

//shard:entity client=example.com/apart/api
type Thing struct{}

func (t *Thing) Do(ctx context.Context, line api.Line) error { return nil }

var _ http.Handler // what callers do not want
`

const api = `package api

import "errors"

type Line struct{ Count int }

//shard:error
var ErrNone = errors.New("none")
`

// TestClientPackage follows a client's package from its first generation to its removal, whichever
// packages the runs are asked for.
func TestClientPackage(t *testing.T) {
	dir := module(t, "example.com/apart", map[string]string{"owner/owner.go": owner, "api/api.go": api})
	file := filepath.Join("api", model.OutputName)

	out := clean(t, options(dir, "./owner"))
	want := []string{filepath.Join("owner", model.OutputName), filepath.Join("owner", contract.FileName), file}
	if !slices.Equal(out.Written, want) {
		t.Fatalf("wrote %v, want %v", out.Written, want)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./api")
	list.Dir, list.Env = dir, environment()
	deps, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, deps)
	}
	for _, unwanted := range []string{"example.com/apart/owner", "net/http\n"} {
		if strings.Contains(string(deps), unwanted) {
			t.Errorf("callers link %s", unwanted)
		}
	}

	check := options(dir, "./...")
	check.Check = true
	for _, patterns := range [][]string{{"./..."}, {"./owner"}, {"./api", "./owner"}} {
		if out := clean(t, options(dir, patterns...)); len(out.Written) != 0 {
			t.Errorf("%v: wrote %v, want nothing", patterns, out.Written)
		}
	}
	if out, err := Run(t.Context(), options(dir, "./api")); err == nil || len(found(t, filepath.Join(dir, "api"), model.OutputName)) != 1 {
		t.Errorf("the client's package alone: got %+v and error %v, want its file left alone", out, err)
	}

	write(t, dir, "owner/more.go", "package owner\n\nimport \"context\"\n\nfunc (t *Thing) More(ctx context.Context) error { return nil }\n")
	if out := clean(t, check); !slices.Contains(out.Stale, file) {
		t.Errorf("with one more message: stale %v, want %s among them", out.Stale, file)
	}
	clean(t, options(dir, "./..."))

	// The client is generated beside the entity again. Its types, and its contract, may stay where
	// they are.
	lock := read(t, dir, "owner/shard.lock")
	write(t, dir, "owner/owner.go", strings.Replace(owner, " client=example.com/apart/api", "", 1))
	write(t, dir, "api/api.go", strings.Replace(api, "//shard:error\n", "", 1))
	write(t, dir, "owner/errors.go", "package owner\n\nimport \"example.com/apart/api\"\n\n//shard:error\nvar _ = api.ErrNone\n")
	out = run(t, options(dir, "./..."))
	if len(out.Written) != 0 || len(out.Diagnostics) == 0 {
		t.Errorf("wrote %v with %v, want the moved error to be asked about", out.Written, out.Diagnostics)
	}
	for _, move := range [][2]string{{"ErrNone", "example.com/apart/api.ErrNone"}, {"Line", "example.com/apart/api.Line"}} {
		if err := Edit(filepath.Join(dir, "owner"), func(c *contract.Contract) error { return contract.Move(c, move[0], move[1]) }); err != nil {
			t.Error(err)
		}
	}
	clean(t, options(dir, "./..."))
	if left := found(t, dir, model.OutputName); !slices.Equal(left, []string{"owner/shard_gen.go"}) {
		t.Errorf("left %v, want the client's file gone; contract before\n%s\nand now\n%s", left, lock, read(t, dir, "owner/shard.lock"))
	}
}

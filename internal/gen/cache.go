package gen

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// The cache avoids printing a package's file again when the existing file was made from
// the same model by the same build of the tool. It holds one line for each folder that
// was generated on this machine, in the user's cache folder. Losing it costs only time.

// toolIdentity is the path, size and modification time of the tool's binary, or "".
var toolIdentity = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(path, info.Size(), info.ModTime().UnixNano())
})

func cachePath(pkg *model.Package) string {
	dir, err := os.UserCacheDir()
	if err != nil || toolIdentity() == "" {
		return ""
	}
	return filepath.Join(dir, "shardgen", sum([]byte(pkg.Dir))[:32])
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// isCurrent reports whether, by the cache, content is this build's output for pkg.
func isCurrent(pkg *model.Package, content []byte) bool {
	path := cachePath(pkg)
	if content == nil || path == "" {
		return false
	}
	line, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	key, output, _ := strings.Cut(string(line), " ")
	return output == sum(content) && key == modelKey(pkg)
}

// remember caches that content is up to date. It ignores failures: the next run only takes longer.
func remember(pkg *model.Package, content []byte) {
	path := cachePath(pkg)
	if path == "" {
		return
	}
	line := modelKey(pkg) + " " + sum(content)
	if old, err := os.ReadFile(path); err == nil && string(old) == line {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), fs.FileMode(0o700)); err == nil {
		_ = writeAtomic(path, []byte(line))
	}
}

func modelKey(pkg *model.Package) string {
	h := hasher{Hash: sha256.New(), seen: make(map[uintptr]int)}
	h.text(toolIdentity())
	h.value(reflect.ValueOf(pkg))
	return hex.EncodeToString(h.Sum(nil))
}

// A hasher hashes plain data with cyclic pointers.
type hasher struct {
	hash.Hash
	seen map[uintptr]int // pointers in the order in which they were met
}

func (h *hasher) text(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }

func (h *hasher) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		n, known := h.seen[v.Pointer()]
		switch {
		case v.IsNil():
			h.text("nil")
		case known:
			fmt.Fprintf(h, "#%d", n)
		default:
			h.seen[v.Pointer()] = len(h.seen)
			h.value(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			h.value(v.Field(i))
		}
	case reflect.Slice:
		fmt.Fprintf(h, "[%d", v.Len())
		for i := range v.Len() {
			h.value(v.Index(i))
		}
	case reflect.String:
		h.text(v.String())
	case reflect.Bool:
		fmt.Fprintf(h, "%t", v.Bool())
	case reflect.Int, reflect.Int64:
		fmt.Fprintf(h, "%d;", v.Int())
	default:
		panic(fmt.Sprintf("hash a model: cannot hash a %s", v.Type()))
	}
}

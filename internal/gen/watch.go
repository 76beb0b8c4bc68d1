package gen

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/gen/contract"
)

// Watch runs o, and runs it again when a Go file, go.mod or a contract in the module has changed,
// until ctx ends. It looks for changes every interval and runs once an interval has passed without
// a further change. It calls report after each run.
func Watch(ctx context.Context, o Options, interval time.Duration, report func(out *Outcome, err error, took time.Duration)) error {
	if o.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		o.Dir = dir
	}
	root := moduleRoot(o.Dir)
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		seen := snapshot(root)
		begin := time.Now()
		out, err := Run(ctx, o)
		if ctx.Err() != nil {
			return nil
		}
		report(out, err, time.Since(begin))
		if out != nil {
			seen.own(o.Dir, out.Written)
		}
		for now, changed, quiet := seen, false, false; !changed || !quiet; {
			select {
			case <-ctx.Done():
				return nil
			case <-ticks.C:
			}
			next := snapshot(root)
			quiet = maps.Equal(next, now)
			changed = changed || !quiet
			now = next
		}
	}
}

func moduleRoot(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// A stamp changes with its file.
type stamp struct {
	size int64
	time int64
}

// stamps are the stamps of files that a run depends on, by path.
type stamps map[string]stamp

// own updates the stamps of files written by a run, so that they cause no other run.
func (s stamps) own(dir string, written []string) {
	for _, name := range written {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		delete(s, path)
		if info, err := os.Stat(path); err == nil {
			s.add(path, info)
		}
	}
}

func (s stamps) add(path string, info fs.FileInfo) {
	s[path] = stamp{info.Size(), info.ModTime().UnixNano()}
}

var notWatched = []string{"vendor", "testdata", "node_modules"}

func snapshot(root string) stamps {
	s := make(stamps)
	// A file that cannot be read is ignored: the run will report it.
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
		case d.IsDir():
			if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || slices.Contains(notWatched, name)) {
				return fs.SkipDir
			}
		case strings.HasSuffix(name, ".go") && !strings.HasPrefix(name, "."), name == "go.mod", name == contract.FileName:
			if info, err := d.Info(); err == nil {
				s.add(path, info)
			}
		}
		return nil
	})
	return s
}

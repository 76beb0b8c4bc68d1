package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

type mutant struct {
	dir, file  string
	line       int
	start, end int // the range of bytes that is replaced
	with       string
	was, now   string // the lines before and after, for people
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s → %s", m.file, m.line, short(m.was), short(m.now))
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 90 {
		return string(r[:90]) + "…"
	}
	if s == "" {
		return "nothing"
	}
	return s
}

type fate string

const (
	invalid  fate = "invalid"
	killed   fate = "killed"
	survived fate = "SURVIVED"
)

type verdict struct {
	fate fate
	by   string
}

func (m mutant) try(all []suite, limit time.Duration) (verdict, error) {
	overlay, clean, err := m.overlay()
	if err != nil {
		return verdict{}, err
	}
	defer clean()
	if _, err := goTool(limit, "build", "-tags", "shardgen_invariants", "-overlay", overlay, "./"+m.dir); err != nil {
		return verdict{fate: invalid}, nil
	}
	for _, s := range all {
		args := []string{"test", "-short", "-tags", "shardgen_invariants", "-overlay", overlay, "-timeout", limit.String()}
		if s.run != "" {
			args = append(args, "-run", s.run)
		}
		pkg := s.pkg
		if pkg == "." {
			pkg = "./" + m.dir
		}
		out, err := goTool(limit+time.Minute, append(args, pkg)...)
		if err != nil {
			return verdict{killed, pkg + " " + firstFailure(out)}, nil
		}
	}
	return verdict{survived, "no suite noticed"}, nil
}

func (m mutant) overlay() (name string, clean func(), err error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", nil, err
	}
	clean = func() { _ = os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			clean()
		}
	}()
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", nil, err
	}
	mutated := filepath.Join(dir, filepath.Base(m.file))
	changed := string(text[:m.start]) + m.with + string(text[m.end:])
	if err = os.WriteFile(mutated, []byte(changed), 0o600); err != nil {
		return "", nil, err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
	if err != nil {
		return "", nil, err
	}
	name = filepath.Join(dir, "overlay.json")
	return name, clean, os.WriteFile(name, list, 0o600)
}

func goTool(limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit && ctx.Err() == nil {
		return "", fmt.Errorf("run go %s: %w", args[0], err)
	}
	return string(out), err
}

// failure matches the lines by which go test reports a failed test, a panic or a timeout.
var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*|fatal error: .*)$`)

func firstFailure(out string) string {
	name := ""
	for _, m := range failure.FindAllStringSubmatch(out, -1) {
		if name != "" && !strings.HasPrefix(m[1], name+"/") {
			break
		}
		name = m[1] + m[2]
	}
	if name == "" {
		return "fails"
	}
	return short(name)
}

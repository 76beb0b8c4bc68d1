package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const generatedSuffix = ".pb.go"

func compare(dir string, want map[string][]byte) ([]string, error) {
	var changed []string
	for name, content := range want {
		have, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || !bytes.Equal(have, content) {
			changed = append(changed, name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if _, ok := want[e.Name()]; !ok && strings.HasSuffix(e.Name(), generatedSuffix) {
			changed = append(changed, e.Name())
		}
	}
	slices.Sort(changed)
	return changed, nil
}

func apply(dir string, changed []string, want map[string][]byte) error {
	for _, name := range changed {
		path := filepath.Join(dir, name)
		content, ok := want[name]
		if !ok {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove left-over file: %w", err)
			}
			continue
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}

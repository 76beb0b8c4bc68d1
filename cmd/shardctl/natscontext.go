package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A natsContext is the part of a context of the nats command that shardctl reads: a file
// nats/context/NAME.json in the user's configuration folder (NATS's ADR 21). Fields for
// JetStream and for inboxes have no meaning here.
type natsContext struct {
	URL      string `json:"url"`
	Token    string `json:"token"`
	User     string `json:"user"`
	Password string `json:"password"`
	Creds    string `json:"creds"`
	NKey     string `json:"nkey"`
	Cert     string `json:"cert"`
	Key      string `json:"key"`
	CA       string `json:"ca"`
	TLSFirst bool   `json:"tls_first"`
	NSC      string `json:"nsc"`
	JWT      string `json:"user_jwt"`
}

// A configFolder is where the nats command keeps its contexts.
type configFolder struct{ env func(string) string }

// path returns the path of a file in the folder.
func (f configFolder) path(elements ...string) string {
	base := f.env("XDG_CONFIG_HOME")
	if base == "" {
		base = filepath.Join(f.env("HOME"), ".config")
	}
	return filepath.Join(append([]string{base, "nats"}, elements...)...)
}

// selected returns the name of the context that "nats context select" has chosen, or "".
func (f configFolder) selected() string {
	name, err := os.ReadFile(f.path("context.txt"))
	if err != nil {
		return "" // most have none
	}
	return strings.TrimSpace(string(name))
}

// read reads a context.
func (f configFolder) read(name string) (c natsContext, err error) {
	if name != filepath.Base(name) {
		return c, fmt.Errorf("context %q: want the name of a context (nats context ls)", name)
	}
	path := f.path("context", name+".json")
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("context %q: there is no file %s (nats context ls)", name, path)
	}
	if err != nil {
		return c, fmt.Errorf("context %q: %w", name, err)
	}
	if err := json.Unmarshal(content, &c); err != nil {
		return c, fmt.Errorf("context %q: %s: %w", name, path, err)
	}
	if c.NSC != "" || c.JWT != "" {
		return c, fmt.Errorf("context %q: shardctl reads neither nsc nor user_jwt of a context (give -creds)", name)
	}
	for _, file := range []*string{&c.Creds, &c.NKey, &c.Cert, &c.Key, &c.CA} {
		*file = f.expand(*file)
	}
	return c, nil
}

// expand replaces variables, and ~ at the beginning, in the name of a file.
func (f configFolder) expand(file string) string {
	if rest, home := strings.CutPrefix(file, "~/"); home {
		file = filepath.Join(f.env("HOME"), rest)
	}
	return os.Expand(file, f.env)
}

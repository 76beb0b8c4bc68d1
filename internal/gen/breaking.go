package gen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/contract"
	"github.com/shardgen/shardgen/internal/gen/load"
	"github.com/shardgen/shardgen/internal/gen/model"
)

// A Breach is an incompatibility between the contract of running programs and the present contract
// of a folder.
type Breach struct {
	Folder string // with the contract, relative to the folder that Breaking compares; "." is that folder itself
	contract.Break
}

// Breaking compares the contracts that running programs have with those of dir. against says where
// the programs' contracts are: a contract file, a folder, or a git revision such as v1.2.0, main or
// HEAD~3. If all is true, it compares each contract below against with the contract at the same
// place below dir, or with an empty contract if there is none.
func Breaking(against, dir string, all bool) ([]Breach, error) {
	before, err := contractsOf(against, dir, all)
	if err != nil {
		return nil, err
	}
	var breaches []Breach
	for _, folder := range before.folders() {
		now, err := Contract(filepath.Join(dir, filepath.FromSlash(folder)))
		if errors.Is(err, fs.ErrNotExist) && all {
			now, err = &contract.Contract{}, nil
		}
		if err != nil {
			return nil, err
		}
		for _, b := range contract.Breaking(before[folder], now) {
			breaches = append(breaches, Breach{folder, b})
		}
	}
	return breaches, nil
}

// Unadopted reports contracts in dir that differ from the contract of the source beside them.
// Comparing such a contract says nothing about the programs built from this source. If all is true,
// it checks all contracts below dir. tags are build tags, comma-separated. A folder without
// generated code has no source to compare.
func Unadopted(ctx context.Context, dir, tags string, all bool) ([]load.Diagnostic, error) {
	now, err := contractsOf(dir, dir, all)
	if err != nil {
		return nil, nil //nolint:nilerr // without a contract there is nothing that could differ
	}
	o := Options{Options: load.Options{Dir: dir, Tags: tags}, Check: true}
	for _, folder := range now.folders() {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(folder), model.OutputName)); err == nil {
			o.Patterns = append(o.Patterns, "./"+folder)
		}
	}
	if len(o.Patterns) == 0 {
		return nil, nil
	}
	out, err := Run(ctx, o)
	if err != nil {
		return nil, err
	}
	list := out.Diagnostics
	for _, path := range out.Stale {
		if filepath.Base(path) == contract.FileName {
			list = append(list, load.Diagnostic{Pos: token.Position{Filename: path, Line: 1, Column: 1}, Code: contract.CodeStale, Message: "not the contract of the source", Remedy: "run go generate"})
		}
	}
	return list, nil
}

type contracts map[string]*contract.Contract

func (c contracts) folders() []string {
	var list []string
	for folder := range c {
		list = append(list, folder)
	}
	slices.Sort(list)
	return list
}

func contractsOf(against, dir string, all bool) (contracts, error) {
	info, err := os.Stat(against)
	switch {
	case err != nil:
		return contractsAt(against, dir, all)
	case all && info.IsDir():
		return contractsBelow(against)
	case all:
		return nil, fmt.Errorf("compare contracts: %s is one contract, and /... means several (give a folder or a git revision)", against)
	}
	c, err := Contract(against)
	return contracts{".": c}, err
}

func contractsBelow(root string) (contracts, error) {
	found := contracts{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && skipFolder(d.Name()):
			return filepath.SkipDir
		case d.IsDir() || d.Name() != contract.FileName:
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		found[filepath.ToSlash(folder)], err = Contract(name)
		return err
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("compare contracts: no %s below %s", contract.FileName, root)
	}
	return found, err
}

func skipFolder(name string) bool {
	return name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// contractsAt reads dir's contract, or if all is true also those below, from a git revision.
func contractsAt(revision, dir string, all bool) (contracts, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			why, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
			return "", fmt.Errorf("compare contracts: %s is neither a file here nor a revision known to git: %s: %w", revision, why, err)
		}
		return string(out), nil
	}
	// A revision that begins with a dash would be an option of git.
	commit, err := git("rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	if err != nil {
		return nil, err
	}
	commit = strings.TrimSpace(commit)
	files := contract.FileName
	if all {
		if files, err = git("ls-tree", "-r", "--name-only", "-z", commit, "."); err != nil {
			return nil, err
		}
	}
	found := contracts{}
	for file := range strings.SplitSeq(files, "\x00") {
		folder := path.Dir(file)
		if path.Base(file) != contract.FileName || slices.ContainsFunc(strings.Split(folder, "/"), func(f string) bool { return f != "." && skipFolder(f) }) {
			continue
		}
		content, err := git("show", commit+":./"+file)
		if err != nil {
			return nil, err
		}
		if found[folder], err = parseContract(revision+":"+file, []byte(content)); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("compare contracts: %s has no %s below %s", revision, contract.FileName, dir)
	}
	return found, nil
}

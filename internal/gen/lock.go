package gen

import (
	"cmp"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/contract"
	"github.com/shardgen/shardgen/internal/gen/load"
	"github.com/shardgen/shardgen/internal/gen/model"
)

// adopt gives the model the numbers of the contract in dir, and returns the contract's change. pkg
// is nil in a folder without entity. After problems, which become diagnostics, nothing may be
// written.
func adopt(dir string, pkg *model.Package, out *Outcome) ([]change, error) {
	path := filepath.Join(dir, contract.FileName)
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		content = nil
	case err != nil:
		return nil, fmt.Errorf("generate: %w", err)
	}
	if content == nil && pkg == nil {
		return nil, nil
	}
	var old *contract.Contract
	if content != nil {
		var problems []contract.Problem
		if old, problems = contract.Parse(content); len(problems) > 0 {
			out.addProblems(path, problems)
			return nil, nil
		}
	}
	now := &contract.Contract{}
	if pkg != nil {
		now = contract.Of(pkg)
	}
	next, problems := contract.Adopt(old, now)
	if len(problems) > 0 {
		out.addProblems(path, problems)
		return nil, nil
	}
	if pkg != nil {
		orderByNumber(pkg)
		for _, p := range slices.Concat([]*model.Package{pkg}, pkg.Clients) {
			for _, e := range p.Entities {
				e.Contract = contract.Digest(next, e.Kind)
			}
		}
	}
	if written := contract.Format(next); string(written) != string(contract.UnixLines(content)) {
		return []change{{path: path, content: written}}, nil
	}
	return nil, nil
}

const contractCommand = "run shardgen contract "

// addProblems adds the contract's problems to the diagnostics. Folders in remedies are relative to
// o.dir, if set.
func (o *Outcome) addProblems(path string, problems []contract.Problem) {
	command := "run go tool shardgen contract "
	if dir := relative(o.dir, filepath.Dir(path)); dir != "." {
		if strings.ContainsRune(dir, ' ') {
			dir = "'" + dir + "'"
		}
		command += "-dir " + dir + " "
	}
	for _, p := range problems {
		o.Diagnostics = append(o.Diagnostics, load.Diagnostic{
			Pos:  token.Position{Filename: path, Line: max(p.Line, 1), Column: 1},
			Code: load.Code(p.Code), Message: p.Message, Remedy: strings.ReplaceAll(p.Remedy, contractCommand, command),
		})
	}
}

// orderByNumber sorts fields as protobuf writes them.
func orderByNumber(pkg *model.Package) {
	byNumber := func(a, b model.Field) int { return cmp.Compare(a.Number, b.Number) }
	for _, p := range slices.Concat([]*model.Package{pkg}, pkg.Clients) {
		for _, t := range p.Types {
			slices.SortFunc(t.Fields, byNumber)
		}
	}
	for _, e := range pkg.Entities {
		slices.SortFunc(e.State, byNumber)
	}
}

package gen

import (
	"fmt"
	"go/token"
	"os"
	"path/filepath"

	"github.com/shardgen/shardgen/internal/gen/contract"
)

// Contract reads the contract file at path, or in the folder at path.
func Contract(path string) (*contract.Contract, error) {
	path = contractPath(path)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read contract: %w", err)
	}
	return parseContract(path, content)
}

func parseContract(path string, content []byte) (*contract.Contract, error) {
	c, problems := contract.Parse(content)
	if len(problems) > 0 {
		p := problems[0]
		return nil, fmt.Errorf("read contract: %s:%d: %s: %s (%s)", path, p.Line, p.Code, p.Message, p.Remedy)
	}
	return c, nil
}

func contractPath(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, contract.FileName)
	}
	return path
}

// Edit applies change to the contract file of a folder.
func Edit(dir string, change func(*contract.Contract) error) error {
	c, err := Contract(dir)
	if err != nil {
		return err
	}
	if err := change(c); err != nil {
		return err
	}
	return writeAtomic(contractPath(dir), contract.Format(c))
}

// Mend makes the contract file of a folder usable again; see [contract.Mend]. It
// returns descriptions of the new numbers and of the dropped lines.
func Mend(dir, released string) ([]string, error) {
	var known *contract.Contract
	if released != "" {
		var err error
		if known, err = Contract(released); err != nil {
			return nil, err
		}
	}
	path := contractPath(dir)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("mend: %w", err)
	}
	c, notes, err := contract.Mend(content, known)
	if err != nil {
		return nil, err
	}
	return notes, writeAtomic(path, contract.Format(c))
}

// Proto returns the contract of a folder as the text of a .proto file. pkg is the name of the
// protobuf package. If pkg is "", the package gets the name of the folder, so that several
// contracts do not collide. If that name is not valid, the package gets the name "shard".
func Proto(dir, pkg string) (string, error) {
	c, err := Contract(dir)
	if err != nil {
		return "", err
	}
	if pkg == "" {
		pkg = "shard"
		folder, err := filepath.Abs(filepath.Dir(contractPath(dir)))
		if err == nil && token.IsIdentifier(filepath.Base(folder)) {
			pkg = filepath.Base(folder)
		}
	}
	file, err := contract.Descriptor(c, pkg)
	if err != nil {
		return "", err
	}
	return contract.Text(file)
}

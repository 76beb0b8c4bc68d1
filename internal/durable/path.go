package durable

import (
	"crypto/sha256"
	"encoding/binary"
)

// A Path names a nested call below a command; empty is the command itself.
type Path string

// pathBytes is the length of a path that is not empty.
const pathBytes = 16

// Calls names the nested calls of one turn. The first run of a command begins with the zero value,
// and so does every later one.
type Calls struct {
	counts map[string]uint64
}

// Path returns the path of the turn's next call of method at target, the entity and its
// type in one text that is no other's. Calls of one turn that have target and method in
// common are told apart by how many came before, so the path is the same whenever the
// turn makes the same calls, in any order among those of its goroutines to different
// targets.
func (c *Calls) Path(parent Path, target, method string) Path {
	b := binary.AppendUvarint(nil, uint64(len(parent)))
	b = append(b, parent...)
	b = binary.AppendUvarint(b, uint64(len(target)))
	b = append(b, target...)
	b = append(b, method...)
	if c.counts == nil {
		c.counts = map[string]uint64{}
	}
	n := c.counts[string(b)]
	c.counts[string(b)]++
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(b, n))
	return Path(sum[:pathBytes])
}

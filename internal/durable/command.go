package durable

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A Source is where commands come from: a process by its incarnation, or the log of a
// shard, which outlives processes.
type Source struct {
	Incarnation uint64 // of the caller's process; 0 means a log
	Log         string // the type of the shard whose log it is; of a key's source, the key
	Shard       uint32
	// To is where the log's tell went from whose turn the command comes, for numbers of one
	// log differ by receiver. Zero: the command is the tell itself.
	To Target
}

// silent reports whether a source that was not heard since is to be forgotten: a process, and
// the turns of a tell. A log tells again after any time.
func (s Source) silent(heard, process, nested time.Time) bool {
	switch {
	case s.Incarnation != 0:
		return heard.Before(process)
	case s.To != (Target{}):
		return heard.Before(nested)
	}
	return false
}

// keyed reports whether the source stands for a key that the user gave: it has an incarnation
// and a log.
func (s Source) keyed() bool { return s.Incarnation != 0 && s.Log != "" }

func (s Source) compare(o Source) int {
	switch {
	case s.Incarnation != o.Incarnation:
		return order(s.Incarnation, o.Incarnation)
	case s.Log != o.Log:
		return order(s.Log, o.Log)
	case s.Shard != o.Shard:
		return order(s.Shard, o.Shard)
	}
	return s.To.compare(o.To)
}

func order[T uint64 | uint32 | string](a, b T) int {
	if a < b {
		return -1
	} else if a > b {
		return 1
	}
	return 0
}

func (s Source) wire() *wire.DurableSource {
	return &wire.DurableSource{Incarnation: s.Incarnation, Log: s.Log, Shard: s.Shard, To: s.To.Log, ToShard: s.To.Shard}
}

func sourceOf(s *wire.DurableSource) Source {
	return Source{s.GetIncarnation(), s.GetLog(), s.GetShard(), Target{s.GetTo(), s.GetToShard()}}
}

// A Command identifies a request to an entity, so that the request is applied once however often
// it is sent.
type Command struct {
	Source Source
	Number uint64 // of the source's commands, from 1 on
	Path   Path   // of a nested call below it
	Floor  uint64 // the lowest of the source's numbers that is not finished, at most Number
	// Past is above Floor if few numbers below it are not finished: those in Stuck alone. 0: only
	// Floor is known.
	Past  uint64
	Stuck Numbers
	Hash  uint64 // of the entity, the method and its arguments
	Key   string // by which the entity itself keeps it; "" means it does not
}

// stuckNumbers are the numbers that were decoded last. Commands of a source have the same as a
// rule, and then the table's need no comparison.
type stuckNumbers struct {
	of  Numbers
	all []uint64 // not to be changed
}

// finished returns the numbers that the command's source has finished.
func (s *stuckNumbers) finished(c Command) finished {
	if c.Past <= c.Floor {
		return finished{below: c.Floor}
	}
	if c.Stuck != s.of {
		all, err := c.Stuck.Slice()
		if err != nil {
			return finished{below: c.Floor}
		}
		s.of, s.all = c.Stuck, all
	}
	first, _ := slices.BinarySearch(s.all, c.Floor)
	end, _ := slices.BinarySearch(s.all, c.Past)
	return finished{below: c.Past, stuck: s.all[first:end]}
}

// A Path names a nested call below a command; empty is the command itself.
type Path string

// pathBytes is the length of a path that is not empty.
const pathBytes = 16

// Calls names the nested calls of one turn. The zero value is that of a command's first
// run and of every later one; it must be a new one for each.
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

package durable

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A Source is the origin of commands: a process, named by its incarnation; the log of a shard; a
// partition of a stream that a feed reads; or an idempotency key. A log or a stream outlives the
// processes that read it.
type Source struct {
	Incarnation uint64 // of the caller's process; 0 means a log or a stream
	Log         string // the type of the shard whose log it is, or a name from StreamSource; the key, if the source stands for a key
	Shard       uint32 // the shard of the log, or the partition of the stream
	// To is set for a command made in the turn of a log's tell. It is the receiver of that tell,
	// because a log numbers its tells for each receiver. It is zero if the command is the tell
	// itself.
	To Target
}

// StreamSource returns the [Source.Log] of a stream: the names of the feed and of the stream, with
// a colon between. No type's name has a colon.
func StreamSource(feed, stream string) string { return feed + ":" + stream }

// Stream reports whether the source is a stream. A turn of a stream's command commits the command's
// id even if it changes nothing. Otherwise a reader that begins again at an old position would
// apply the command after later ones.
func (s *Source) Stream() bool { return s.To == (Target{}) && strings.Contains(s.Log, ":") }

// silent reports whether the shard may forget source s, whose last command came at the time heard.
// A process or a key may be forgotten if heard is before the time process, and a tell's turn if
// heard is before the time nested. A log is never forgotten, because the log's shard may send tells
// again at any time.
func (s Source) silent(heard, process, nested time.Time) bool {
	switch {
	case s.Incarnation != 0:
		return heard.Before(process)
	case s.To != (Target{}):
		return heard.Before(nested)
	}
	return false
}

// keyed reports whether the source stands for an idempotency key. Only such a source has both an
// incarnation and a log.
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

func (s *Source) wire() *wire.DurableSource {
	return &wire.DurableSource{Incarnation: s.Incarnation, Log: s.Log, Shard: s.Shard, To: s.To.Log, ToShard: s.To.Shard}
}

func sourceOf(s *wire.DurableSource) Source {
	return Source{s.GetIncarnation(), s.GetLog(), s.GetShard(), Target{s.GetTo(), s.GetToShard()}}
}

// A Command identifies a call to an entity, so that the call is applied once however often it is
// sent.
type Command struct {
	Source Source
	Number uint64 // of the source's commands, from 1 on
	Path   Path   // of the nested call, if the command is one
	Floor  uint64 // the lowest of the source's numbers that is not finished, at most Number
	// If Past is above Floor, all numbers below Past are finished except those in Stuck. 0 means
	// that only Floor is known.
	Past  uint64
	Stuck Numbers
	Hash  uint64 // of the entity, the method and its arguments
	Key   string // the idempotency key under which the entity keeps the command; "" means none
}

// A Verdict is the shard's decision whether to run a command, answer it again, or refuse it.
type Verdict uint8

// The verdicts of [Shard.Admit] and [Shard.Keyed].
const (
	// Run: the command is new. Run it, then end it with Commit or Discard.
	Run Verdict = iota + 1
	// Replay: the command was applied. Its answer may leave once its ticket is durable.
	Replay
	// Running: the command runs already, and is answered at the end of that run.
	Running
	// BelowFloor: the command's source no longer waits for the answer. The command never runs.
	BelowFloor
	// Mismatch: another command has this id, because the caller's turn has made another call than
	// in its first run.
	Mismatch
	// Forgotten: the command was applied, and its answer is not kept any more. It never runs again.
	Forgotten
	// Overloaded: the shard keeps too many commands or tells, or too long a tail of the log. Try
	// again later.
	Overloaded
	// Closed: the shard is not open here.
	Closed
)

// An Admission is the decision about a command, with the kept answer if the command was applied.
type Admission struct {
	Verdict Verdict
	Answer  []byte // Replay: the answer in the command's commit
	Ticket  Ticket // Replay: the ticket of the command's commit
}

// A Path identifies a nested call made while a command runs; an empty path is the command itself.
type Path string

// pathBytes is the length of a nonempty path.
const pathBytes = 16

// Calls names the nested calls of one turn. Each run of a command begins with the zero value.
type Calls struct {
	counts map[string]uint64
}

// Path returns the path of the turn's next call of method at target. target must be a unique name
// of the entity and its type. Calls of one turn with the same target and method are numbered in
// their order. A command that runs again therefore gets the same paths for the same calls, even if
// the calls to different targets come in another order.
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

// MaxStuck is the most numbers that [Command.Stuck] may have.
const MaxStuck = 32

// Numbers is an encoded list of command numbers that ascend. Each number is encoded as a uvarint of
// its difference to the number before it. The type is a string so that a Command, which contains
// Numbers, is comparable.
type Numbers string

// NumbersOf encodes numbers, which must ascend.
func NumbersOf(all []uint64) Numbers {
	var b []byte
	last := uint64(0)
	for _, n := range all {
		b = binary.AppendUvarint(b, n-last)
		last = n
	}
	return Numbers(b)
}

// Slice decodes the numbers. It returns an error if the encoding is invalid, if the numbers do not
// ascend, or if there are more than [MaxStuck] of them.
func (s Numbers) Slice() (all []uint64, err error) {
	b, last := []byte(s), uint64(0)
	all = make([]uint64, 0, min(len(b), MaxStuck))
	for len(b) > 0 {
		d, n := binary.Uvarint(b)
		if n <= 0 || d == 0 || last+d < last || len(all) == MaxStuck {
			return nil, fmt.Errorf("stuck command numbers %[2]x: want at most %[1]d ascending uvarints", MaxStuck, string(s))
		}
		b, last = b[n:], last+d
		all = append(all, last)
	}
	return all, nil
}

// finished is the set of a source's command numbers without a waiting caller: all below a number,
// except a few stuck ones.
type finished struct {
	below uint64
	stuck []uint64 // ascending, all lower than below; not to be changed
}

func (f finished) has(number uint64) bool {
	if number >= f.below {
		return false
	}
	_, stuck := slices.BinarySearch(f.stuck, number)
	return !stuck
}

func (f finished) floor() uint64 {
	if len(f.stuck) > 0 {
		return f.stuck[0]
	}
	return f.below
}

// join returns the union of f and o, and whether o has numbers that f lacks.
func (f finished) join(o finished) (both finished, more bool) {
	high, low := f, o
	if o.below > f.below {
		high, low = o, f
	}
	both = high
	if !sameMemory(f.stuck, o.stuck) && slices.ContainsFunc(high.stuck, low.has) {
		both.stuck = slices.DeleteFunc(slices.Clone(high.stuck), low.has)
	}
	return both, both.below != f.below || len(both.stuck) != len(f.stuck)
}

func sameMemory(a, b []uint64) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// stuckNumbers caches the stuck numbers that were decoded last. Most commands of a source repeat
// them, and finished.join then compares only addresses.
type stuckNumbers struct {
	of  Numbers
	all []uint64 // not to be changed
}

func (s *stuckNumbers) finished(c *Command) finished {
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

package durable

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A Source is where commands come from: a process by its incarnation, or the log of a
// shard, which outlives processes.
type Source struct {
	Incarnation uint64 // of the caller's process; 0 means a log
	Log         string // the type of the shard whose log it is; of a key's source, the key
	Shard       uint32
	// To is the receiver of the log's tell in whose turn the command was made, because numbers
	// of one log differ by receiver. It is zero if the command is the tell itself.
	To Target
}

// silent reports whether a source that was last heard at that time is to be forgotten. A process
// is to be, if that was before process; so are a tell's turns, if it was before nested. A log is
// kept, because it tells again after any time.
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
	Path   Path   // of a nested call below it
	Floor  uint64 // the lowest of the source's numbers that is not finished, at most Number
	// Past is above Floor if, of the numbers below Past, those in Stuck alone are not finished.
	// 0 means that only Floor is known.
	Past  uint64
	Stuck Numbers
	Hash  uint64 // of the entity, the method and its arguments
	Key   string // by which the entity itself keeps it; "" means it does not
}

package durable

import (
	"time"

	"github.com/shardgen/shardgen/store"
)

// Limits bound one shard. A field that is zero means its default.
type Limits struct {
	// AppendBytes bounds one append, and so one commit. Default and maximum
	// [store.MaxAppend].
	AppendBytes int
	// TailBytes and TailCommits bound the log that the next home would have to read. A checkpoint
	// begins at half of either bound, or at the whole bound if some commits need older ones. At
	// four times a bound, calls are refused. Defaults 4 MiB and 4,000.
	TailBytes, TailCommits int
	// Commands bounds the ids of commands that are kept, including running ones. CommandBytes
	// bounds their answers. Beyond either, calls are refused. Defaults 16,384 and 16 MiB.
	Commands, CommandBytes int
	// Keys bounds the idempotency keys that were sent within Silent. All of these are kept, the
	// oldest without their answers. Beyond the bound, commands with new keys are refused. Default
	// 65,536.
	Keys int
	// Tells bounds the tells that wait, and TellBytes their bodies. Beyond either, calls are
	// refused. Defaults 16,384 and 16 MiB.
	Tells, TellBytes int
	// LeafBytes bounds a leaf of the catalog, in bytes of its keys. A larger leaf is split into
	// leaves of about three quarters of LeafBytes, and one below a quarter is joined with its
	// neighbour. Default 32 KiB.
	LeafBytes int
	// Silent is how long a caller's process sends nothing before the shard forgets it. Default 10
	// min.
	Silent time.Duration
	// DeadAfter is the age at which a tell goes to the dead letters. Default 1 h.
	DeadAfter time.Duration
	// Pause is the time between two attempts of the same request. It doubles with each attempt, up
	// to 32 times Pause. Default 20 ms.
	Pause time.Duration
	// TellPause is the time between two attempts to send a tell that its receiver has not
	// acknowledged; it grows like Pause. It is also how long an acknowledgement waits for an append
	// that can carry it. Default 1 s.
	TellPause time.Duration
	// JournalPause is how long events are in the log before they are written to the
	// journal, where followers read them. Default 250 ms.
	JournalPause time.Duration
}

// deadGrace is how long a shard must have been open before it gives tells up, unless DeadAfter is
// shorter.
const deadGrace = time.Minute

// nestedSilent is the multiple of DeadAfter for which a shard remembers calls made in turns of
// tells. Such a turn can run again while its tell is sent.
const nestedSilent = 2

// refuseAt is the multiple of the tail's limits from which calls are refused.
const refuseAt = 4

// Bounds of one Put; the store bounds only single values.
const (
	putRecords = store.MaxGet
	putBytes   = 1 << 20
	partBytes  = 256 << 10 // of a part of the table
)

func (l Limits) withDefaults() Limits {
	set(&l.AppendBytes, store.MaxAppend)
	l.AppendBytes = min(l.AppendBytes, store.MaxAppend)
	set(&l.TailBytes, 4<<20)
	set(&l.TailCommits, 4000)
	set(&l.Commands, 16<<10)
	set(&l.CommandBytes, 16<<20)
	set(&l.Keys, 64<<10)
	set(&l.Tells, 16<<10)
	set(&l.TellBytes, 16<<20)
	set(&l.LeafBytes, 32<<10)
	set(&l.Silent, 10*time.Minute)
	set(&l.DeadAfter, time.Hour)
	set(&l.Pause, 20*time.Millisecond)
	set(&l.TellPause, time.Second)
	set(&l.JournalPause, 250*time.Millisecond)
	return l
}

func set[T int | time.Duration](v *T, otherwise T) {
	if *v <= 0 {
		*v = otherwise
	}
}

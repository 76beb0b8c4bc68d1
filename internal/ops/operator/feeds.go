package operator

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A Feed is a partition of a stream that members read with shard.Consume.
type Feed struct {
	Feed      string // its name
	Partition uint32
	Stream    string // the identity of the stream
	Position  uint64 // of the first message that is not finished
	End       uint64 // position of the partition's last message; 0 means that it is not known
	Waiting   uint32 // tells under way
	Dead      uint64 // dead letters
	Missed    uint64 // messages that were deleted unread
	Node      string // the member that reads the partition
	// Written is when the member wrote Position, by the member's clock.
	Written time.Time
	Why     string // what holds up the reading; "" means nothing
}

func feedsToWire(all []Feed) (w []*wire.AdminFeed) {
	for _, f := range all {
		w = append(w, &wire.AdminFeed{
			Feed: f.Feed, Partition: f.Partition, Stream: f.Stream, Position: f.Position, End: f.End, Waiting: f.Waiting,
			Dead: f.Dead, Missed: f.Missed, Node: f.Node, Written: toNanos(f.Written), Why: f.Why,
		})
	}
	return w
}

func feedsFromWire(w []*wire.AdminFeed) (all []Feed) {
	for _, f := range w {
		all = append(all, Feed{
			f.GetFeed(), f.GetPartition(), f.GetStream(), f.GetPosition(), f.GetEnd(), f.GetWaiting(), f.GetDead(), f.GetMissed(), f.GetNode(),
			fromNanos(f.GetWritten()), f.GetWhy(),
		})
	}
	return all
}

// Package stream is the interface between shardgen and the systems that keep streams of messages.
// [shard.Consume] reads a [Source]; package stream/nats has a Source for JetStream.
//
// [shard.Consume]: https://pkg.go.dev/github.com/shardgen/shardgen/runtime#Consume
package stream

import (
	"context"
	"errors"
	"time"
)

// A Message is one message of a stream.
type Message struct {
	// Position is the message's place in its partition, from 1 on. Later messages have higher
	// positions, perhaps with gaps. A position never names a different message.
	Position uint64
	Subject  string // the subject or topic
	Header   map[string][]string
	Data     []byte // belongs to the reader
	Time     time.Time
}

// A Source is a stream that can be read from any position. It is safe for concurrent use.
type Source interface {
	// Partitions returns the number of partitions, at least 1. It must never change, because
	// positions belong to partitions.
	Partitions() int
	// Identity returns a text that names the stream among all streams. A stream that is deleted and
	// made again has a new identity, because its positions begin again. Identity makes one attempt.
	Identity(ctx context.Context) (string, error)
	// Open begins to read a partition, at the first message whose position is above after. It fails
	// with ErrRewound if the positions of the stream have not reached after. Open makes one
	// attempt.
	Open(ctx context.Context, partition int, after uint64) (Messages, error)
}

// Ended is a [Source] that knows the ends of its partitions.
type Ended interface {
	// End returns the position of the last message of a partition, or 0 if there is none. It fails
	// with errors.ErrUnsupported if the source cannot know the last position. End makes one
	// attempt.
	End(ctx context.Context, partition int) (uint64, error)
}

// Messages reads the messages of one partition in order. It is not safe for concurrent use.
type Messages interface {
	// Next waits until there is a message, and returns one or more, up to the number most. It fails
	// if ctx ends. It also fails if reading cannot continue; then Open must be called again.
	Next(ctx context.Context, most int) ([]Message, error)
	// Missed returns how many messages were deleted before they could be read. If the partition is
	// only a part of the stream, Missed may count messages of other partitions.
	Missed() uint64
	// Close ends reading. It may be called twice.
	Close()
}

// ErrRewound means that the end of a stream is before the last position that was read. So the
// stream has lost messages that were read, for example because an older copy was restored. New
// messages then get the positions of lost ones.
var ErrRewound = errors.New("the stream ends before the last position read (was an older copy restored?)")

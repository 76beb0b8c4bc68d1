package feeds

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/feed"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/stream"
)

// Host is the process that runs a feed.
type Host interface {
	// Map returns the tells that a message becomes.
	Map(ctx context.Context, m stream.Message) ([]durable.Tell, error)
	// Send sends tells. id returns the command ID of a tell. The callback (then) gets each tell,
	// with its result. Send does not block.
	Send(ctx context.Context, partition int, tells []durable.Tell, id func(durable.Tell) durablehost.ID, then func([]durable.Tell, feed.Result, error))
}

// Config describes a feed.
type Config struct {
	Name    string
	Source  stream.Source
	Store   store.Store
	Host    Host
	Node    string          // the process's name
	Context context.Context //nolint:containedctx // ends with the process
	Limits  feed.Limits
	Log     *slog.Logger
	Dead    []byte // the body of a tell that commits its number without an effect
}

// Counts counts the events of a feed at this process.
type Counts struct {
	Read    atomic.Uint64 // messages that were read
	Done    atomic.Uint64 // tells that are finished
	Failed  atomic.Uint64 // attempts that failed at the receiver
	Dead    atomic.Uint64 // dead letters that were stored
	Missed  atomic.Uint64 // messages that were deleted before they could be read
	Waiting atomic.Int64  // tells that are read and not finished
}

// A Feed reads the partitions of a stream that have their home at this process.
type Feed struct {
	Config
	Counts Counts
}

// New returns a feed that reads nothing yet.
func New(c Config) *Feed { return &Feed{Config: c} }

// Read reads a partition until ctx ends.
func (f *Feed) Read(ctx context.Context, partition int) {
	(&reader{Feed: f, partition: partition}).run(ctx)
}

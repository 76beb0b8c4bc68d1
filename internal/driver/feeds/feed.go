package feeds

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/feed"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/stream"
)

// Host is the process of a feed.
type Host interface {
	// Map returns the tells that a message becomes.
	Map(ctx context.Context, m stream.Message) ([]durable.Tell, error)
	// Send sends tells. id returns the command ID of a tell. then is called for each tell, with its
	// result. Send does not block.
	Send(ctx context.Context, partition int, tells []durable.Tell, id func(durable.Tell) durablehost.ID, then func([]durable.Tell, feed.Result, error))
	// Go runs f on a goroutine that the process waits for at its end. It does nothing if the process
	// is ending.
	Go(f func())
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
	Failed  atomic.Uint64 // attempts that the receiver failed
	Dead    atomic.Uint64 // dead letters that were stored
	Missed  atomic.Uint64 // messages that were deleted before they could be read
	Waiting atomic.Int64  // tells that are read and not finished
}

// A Feed reads the partitions of a stream that have their home at this process.
type Feed struct {
	Config
	Counts Counts

	mu      sync.Mutex
	here    []bool
	readers []*running // nil: it is not read
}

// running is the goroutine of one partition.
type running struct{ cancel context.CancelFunc }

// New returns a feed that reads nothing yet.
func New(c Config) *Feed {
	n := c.Source.Partitions()
	return &Feed{Config: c, here: make([]bool, n), readers: make([]*running, n)}
}

// Placed begins or ends reading a partition. It implements node.Feed.
func (f *Feed) Placed(partition int, here bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if partition >= len(f.here) || f.here[partition] == here {
		return // the type may have more shards than the feed has partitions
	}
	f.here[partition] = here
	if !here {
		if r := f.readers[partition]; r != nil {
			r.cancel()
		}
		return
	}
	f.startLocked(partition)
}

// startLocked starts the reader of a partition, unless the last one has not ended yet.
func (f *Feed) startLocked(partition int) {
	if f.readers[partition] != nil {
		return
	}
	ctx, cancel := context.WithCancel(f.Context)
	f.readers[partition] = &running{cancel}
	f.Host.Go(func() {
		defer cancel()
		(&reader{Feed: f, partition: partition}).run(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.readers[partition] = nil
		if f.here[partition] && f.Context.Err() == nil { // it was placed here again meanwhile
			f.startLocked(partition)
		}
	})
}

// Reading reports whether a partition is read at this process.
func (f *Feed) Reading(partition int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.here[partition]
}

// rest waits for d, or returns false if ctx ends first.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

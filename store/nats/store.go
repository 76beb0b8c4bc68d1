package natsstore

import (
	"context"
	"fmt"

	"github.com/shardgen/shardgen/store"
)

// A Store is a [store.Backend] on JetStream. Beside the methods below it has those of
// [store.Store] and [store.Lease]. It is safe for concurrent use.
type Store struct {
	*keys
	*leases
	streams *streams
	shards  *shards
}

var _ store.Backend = (*Store)(nil)

// Open connects to a server of url, which may be several with commas between, finds
// or creates the stream of small records and leases, and returns when it answers, or
// with an error when ctx ends. Streams of types are looked for when they are first
// used.
func Open(ctx context.Context, url string, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	c, err := connect(url, cfg)
	if err != nil {
		return nil, fmt.Errorf("store: connect to NATS: %w: %w (is a server running there?)", store.ErrUnavailable, err)
	}
	w := &writer{&reader{&api{c}}}
	s := &Store{
		keys:    &keys{writer: w, name: cfg.Name, stream: keysStream(cfg.Name)},
		leases:  &leases{writer: w, name: cfg.Name, stream: keysStream(cfg.Name), seen: make(map[string]sighting)},
		streams: &streams{writer: w, cfg: cfg, layouts: make(map[string]layout)},
	}
	s.shards = &shards{s.streams}
	if err := s.streams.openKeys(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("store: open: %w", err)
	}
	return s, nil
}

// Shards implements [store.Backend].
func (s *Store) Shards() store.Shards { return s.shards }

// Close ends the connection. Calls under way end: reads with ErrUnavailable, writes
// with ErrUncertain. It may be called twice.
func (s *Store) Close() { s.streams.close() }

package natsstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/shardgen/shardgen/store"
)

// A Store is a [store.Backend] on JetStream. Beside the methods below it has those of
// [store.Store] and [store.Lease]. It is safe for concurrent use.
type Store struct {
	*conn
	*keys
	*leases
	cfg    Config
	shards *shards

	mu       sync.Mutex
	layouts  map[string]layout // by type
	creating sync.Mutex        // held while streams are looked for and created
}

var _ store.Backend = (*Store)(nil)

// Open connects to a server of url, which may be several with commas between, finds
// or creates the stream of small records and leases, and returns when it answers, or
// with an error when ctx ends. Streams of types are looked for when they are first
// used.
func Open(ctx context.Context, url string, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("store: config: %w", err)
	}
	c, err := connect(url, cfg)
	if err != nil {
		return nil, fmt.Errorf("store: connect to NATS: %w: %w (is a server running there?)", store.ErrUnavailable, err)
	}
	s := &Store{conn: c, cfg: cfg, layouts: make(map[string]layout)}
	s.shards = &shards{store: s}
	s.keys = &keys{conn: c, name: cfg.Name, stream: keysStream(cfg.Name)}
	s.leases = &leases{conn: c, name: cfg.Name, stream: keysStream(cfg.Name), seen: make(map[string]sighting)}
	if err := s.openKeys(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("store: open: %w", err)
	}
	return s, nil
}

func (s *Store) openKeys(ctx context.Context) error {
	stream := keysStream(s.cfg.Name)
	_, there, err := s.info(ctx, stream)
	for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // servers that start have no leader yet
		_, there, err = s.info(ctx, stream)
	}
	if err != nil || there {
		return err
	}
	if s.cfg.NoCreate {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, missing(stream))
	}
	c := s.recordStream(stream, s.cfg.Name+".k.>", nil)
	c.Subjects = append(c.Subjects, s.cfg.Name+".l.>")
	if err := s.create(ctx, c); err != nil {
		return err
	}
	_, _, err = s.info(ctx, stream)
	return err
}

// Shards implements [store.Backend].
func (s *Store) Shards() store.Shards { return s.shards }

// Close ends the connection. Calls under way end: reads with ErrUnavailable, writes
// with ErrUncertain. It may be called twice.
func (s *Store) Close() { s.close() }

// place is where a shard lies.
func (s *Store) place(ctx context.Context, sh store.Shard) (place, layout, error) {
	if err := sh.Check(); err != nil {
		return place{}, layout{}, err
	}
	l, err := s.layoutOf(ctx, sh.Type)
	if err != nil {
		return place{}, layout{}, err
	}
	return placeOf(s.cfg.Name, sh, l.partitions), l, nil
}

package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
// or creates the stream of small records and leases, and returns when it answers. Where no
// server answers, it logs that once and waits until ctx ends, at most 30 s. Where JetStream
// does not answer yet, it waits until ctx ends. It fails with [store.ErrUnavailable], and at
// once if the server refuses the connection or JetStream is not enabled.
// Streams of types are looked for when they are first used.
func Open(ctx context.Context, url string, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	c, err := dial(ctx, url, cfg)
	if err != nil {
		return nil, err
	}
	w := &writer{&reader{&api{c}}}
	s := &Store{
		keys:    &keys{writer: w, name: cfg.Name, stream: keysStream(cfg.Name)},
		leases:  &leases{writer: w, name: cfg.Name, stream: keysStream(cfg.Name), seen: make(map[string]sighting)},
		streams: &streams{writer: w, cfg: cfg, layouts: make(map[string]layout)},
	}
	s.shards = &shards{streams: s.streams}
	if err := s.streams.openKeys(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("store: open: %w", err)
	}
	return s, nil
}

// Shards implements [store.Backend].
func (s *Store) Shards() store.Shards { return s.shards }

// Layout returns Config.Name, with which the names of the store's streams begin, and Config.Replicas,
// both with their defaults. Streams that somebody else has created may have other replicas.
func (s *Store) Layout() (name string, replicas int) {
	return s.streams.cfg.Name, s.streams.cfg.Replicas
}

// Close ends the connection. Calls under way end: reads with ErrUnavailable, writes
// with ErrUncertain. It may be called twice.
func (s *Store) Close() { s.streams.close() }

// A Type describes the streams of one type of entities.
type Type struct {
	Name     string
	Replicas int    // of each stream
	Bytes    uint64 // of all streams, in one copy
	streams  []string
}

// Types lists the types of entities that have streams, by name. It needs the permission to
// publish to $JS.API.STREAM.LIST. It fails with ErrUnavailable.
func (s *Store) Types(ctx context.Context) ([]Type, error) {
	types, err := s.streams.types(ctx)
	if err != nil {
		return nil, fmt.Errorf("store: list types: %w", err)
	}
	return types, nil
}

// DropType deletes the streams of a type with all its entities, for ever. No node may host
// the type, and this is not checked. It needs the permission to publish to
// $JS.API.STREAM.DELETE of these streams. When it fails, a part may be deleted: repeat it.
// It fails with ErrNotFound if the type has no streams.
func (s *Store) DropType(ctx context.Context, name string) error {
	types, err := s.streams.types(ctx)
	if err != nil {
		return fmt.Errorf("store: delete type %s: %w", name, err)
	}
	i := slices.IndexFunc(types, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("store: delete type %s: %w", name, store.ErrNotFound)
	}
	// The first partition's log says that the type is there: without it nobody begins to use
	// the others.
	first := streamName(s.streams.cfg.Name, typeToken(name), partLog, 0)
	streams := slices.DeleteFunc(types[i].streams, func(stream string) bool { return stream == first })
	for _, stream := range append([]string{first}, streams...) {
		var done struct{}
		err := s.streams.call(ctx, "STREAM.DELETE."+stream, nil, &done)
		var refused *apiError
		if errors.As(err, &refused) && refused.ErrCode == codeNoStream {
			continue // deleted by an earlier attempt
		}
		if err != nil {
			return fmt.Errorf("store: delete type %s: %w", name, repeatableError(err, stream))
		}
	}
	s.streams.forget(name)
	return nil
}

// DropLeases deletes the leases below a prefix, which ends with a slash, and returns their number.
// Tokens of their names begin with 1 again, and a holder has lost its lease. It needs the permissions
// of [Open] alone. It fails with ErrUnavailable and ErrBadKey.
func (s *Store) DropLeases(ctx context.Context, prefix string) (n int, err error) {
	const op = "drop leases"
	if err := store.CheckPrefix(prefix); err != nil {
		return 0, fail(op, prefix, err)
	}
	stream := keysStream(s.streams.cfg.Name)
	var done struct {
		Purged int `json:"purged"`
	}
	err = s.streams.call(ctx, "STREAM.PURGE."+stream, struct {
		Filter string `json:"filter"`
	}{leaseSubject(s.streams.cfg.Name, prefix) + ">"}, &done)
	if err != nil {
		err = repeatableError(err, stream)
	}
	return done.Purged, fail(op, prefix, err)
}

// Last returns the position of the last append of a shard's log, as the stream's leader has
// it: Start if the log is empty. Another append may have been added meanwhile.
func (s *Store) Last(ctx context.Context, shard store.Shard) (store.Position, error) {
	const op = "last"
	at, _, err := s.streams.place(ctx, shard)
	if err != nil {
		return 0, fail(op, shard.String(), err)
	}
	m, err := s.streams.leaderHas(ctx, at.logs, getRequest{LastFor: at.log})
	if err != nil || m == nil {
		return 0, fail(op, shard.String(), err)
	}
	return store.Position(m.seq), nil
}

package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/store"
)

// A Store is a [store.Backend] on JetStream. Beside the methods below it has the methods of
// [store.Store] and [store.Lease]. It is safe for concurrent use.
type Store struct {
	*keys
	*leases
	streams   *streams
	shards    *shards
	publisher publisher
}

var (
	_ store.Backend   = (*Store)(nil)
	_ store.Clock     = (*Store)(nil)
	_ store.Publisher = (*Store)(nil)
)

// Open connects to one server of url, which may have several URLs separated by commas. It finds or
// creates the stream of small records and leases, and returns when that stream answers. If no
// server answers, Open logs that once and tries again until ctx ends, at most 30 s. If a server
// answers but JetStream does not yet, Open waits until ctx ends. Open fails with
// [store.ErrUnavailable]. It fails at once if the server refuses the connection, or if JetStream is
// not enabled. Open does not look for the streams of types; the first use of a type does.
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
		keys:      &keys{writer: w, name: cfg.Name, stream: keysStream(cfg.Name)},
		leases:    &leases{writer: w, name: cfg.Name, stream: keysStream(cfg.Name), seen: make(map[string]sighting)},
		streams:   &streams{writer: w, cfg: cfg, layouts: make(map[string]layout)},
		publisher: publisher{writer: w, looks: make(map[string]*look)},
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

// Now implements [store.Clock]. It is the time of the server that leads the stream of small records,
// from its answer to STREAM.INFO.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	const op = "now"
	stream := keysStream(s.streams.cfg.Name)
	var info struct {
		At time.Time `json:"ts"`
	}
	err := s.streams.call(ctx, "STREAM.INFO."+stream, nil, &info)
	switch {
	case err != nil:
		return time.Time{}, fail(op, stream, repeatableError(err, stream))
	case info.At.IsZero():
		return time.Time{}, fail(op, stream, fmt.Errorf("%w: the server's answer has no time (run nats-server 2.14 or later)", store.ErrUnavailable))
	}
	return info.At, nil
}

// Layout returns Config.Name, with which the names of the store's streams begin, and
// Config.Replicas, both with defaults applied. Streams that already existed may have other numbers
// of replicas.
func (s *Store) Layout() (name string, replicas int) {
	return s.streams.cfg.Name, s.streams.cfg.Replicas
}

// Close ends the connection. Calls under way fail: reads with ErrUnavailable, writes with
// ErrUncertain. It may be called twice.
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

// DropType deletes the streams of a type, and with them all entities of the type, permanently. Make
// sure that no node hosts the type; DropType does not check this. It needs the rights to publish to
// $JS.API.STREAM.LIST and to $JS.API.STREAM.DELETE of the type's streams. If DropType fails, it may
// have deleted some of the streams: call it again. It fails with ErrNotFound if the type has no
// streams.
func (s *Store) DropType(ctx context.Context, name string) error {
	types, err := s.streams.types(ctx)
	if err != nil {
		return fmt.Errorf("store: delete type %s: %w", name, err)
	}
	i := slices.IndexFunc(types, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("store: delete type %s: %w", name, store.ErrNotFound)
	}
	// The first partition's log shows that the type exists. It is deleted first, so that no program
	// begins to use the other streams.
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

// DropLeases deletes the leases whose names begin with prefix, and returns their number. prefix
// must end with a slash; "" deletes all leases. The holder of such a lease loses it, and the tokens of these leases begin
// with 1 again. DropLeases needs only the permissions of [Open]. It fails with ErrUnavailable and
// ErrBadKey.
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

// Last returns the position of the last append of a shard's log, read from the stream's leader, or
// Start if the log is empty. Further appends may have been added since.
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

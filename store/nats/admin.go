package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/store"
)

// A Type describes the streams of one type of entities.
type Type struct {
	Name     string
	Streams  []string // by name
	Replicas int      // of each stream
	Messages uint64   // in all streams
	Bytes    uint64   // of all streams, in one copy
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

// listed is a page of JetStream's list of streams.
type listed struct {
	Total   int          `json:"total"`
	Streams []streamInfo `json:"streams"`
}

func (s *streams) types(ctx context.Context) ([]Type, error) {
	byName := make(map[string]*Type)
	request := struct {
		Offset  int    `json:"offset"`
		Subject string `json:"subject"`
	}{Subject: s.cfg.Name + ".t.>"}
	for {
		var page listed
		if err := s.inquire(ctx, "STREAM.LIST", request, &page); err != nil {
			return nil, readError(err, s.cfg.Name+"_*")
		}
		for _, info := range page.Streams {
			name, err := strconv.Unquote(info.Config.Metadata[metaType])
			if err != nil {
				continue // it is not of this store
			}
			t := byName[name]
			if t == nil {
				t = &Type{Name: name, Replicas: info.Config.Replicas}
				byName[name] = t
			}
			t.Streams = append(t.Streams, info.Config.Name)
			t.Messages += info.State.Messages
			t.Bytes += info.State.Bytes
		}
		request.Offset += len(page.Streams)
		if len(page.Streams) == 0 || request.Offset >= page.Total {
			break
		}
	}
	var types []Type
	for _, t := range byName {
		slices.Sort(t.Streams)
		types = append(types, *t)
	}
	slices.SortFunc(types, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
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
	first := streamName(s.streams.cfg.Name, typeToken(name), kindLog, 0)
	streams := slices.DeleteFunc(types[i].Streams, func(stream string) bool { return stream == first })
	for _, stream := range append([]string{first}, streams...) {
		var done struct{}
		err := s.streams.call(ctx, "STREAM.DELETE."+stream, nil, &done)
		var refused *apiError
		if errors.As(err, &refused) && refused.ErrCode == codeNoStream {
			continue // deleted by an earlier attempt
		}
		if err != nil {
			return fmt.Errorf("store: delete type %s: %w", name, readError(err, stream))
		}
	}
	s.streams.forget(name)
	return nil
}

// forget has the streams of a type be looked for again.
func (s *streams) forget(name string) {
	s.mu.Lock()
	delete(s.layouts, name)
	s.mu.Unlock()
	s.places.Range(func(key, _ any) bool {
		if key.(store.Shard).Type == name {
			s.places.Delete(key)
		}
		return true
	})
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

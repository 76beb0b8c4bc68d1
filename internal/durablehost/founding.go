package durablehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/transport"
)

// FoundingKey is the key of the record of who founded a cluster.
func FoundingKey(cluster string) string { return "founding/" + cluster }

// A foundingRecord is that record.
type foundingRecord struct {
	Format  int    `json:"format"` // 1
	Founder origin `json:"founder"`
	Node    origin `json:"node"`   // the member that wrote the record
	Server  string `json:"server"` // the broker instance behind its connection
}

// An origin is a node's address.
type origin struct {
	Name        string `json:"name"`
	Incarnation uint64 `json:"incarnation,string"`
}

// Founding reads or writes the record of who founded a cluster. It tries once.
func Founding(ctx context.Context, s store.Store, cluster string, r membership.FoundingRequest) membership.FoundingAnswer {
	a := membership.FoundingAnswer{Number: r.Number}
	var err error
	if r.Write {
		a.Revision, err = writeFounding(ctx, s, cluster, r)
	} else {
		a.Founding, a.Revision, err = readFounding(ctx, s, cluster)
	}
	switch {
	case errors.Is(err, store.ErrConflict):
		a.Conflict = true
	case err != nil:
		a.Reason = fmt.Sprintf("the store's record %q: %v", FoundingKey(cluster), err)
	}
	return a
}

func readFounding(ctx context.Context, s store.Store, cluster string) (f membership.Founding, revision uint64, err error) {
	found, err := s.Get(ctx, FoundingKey(cluster))
	if errors.Is(err, store.ErrNotFound) {
		return f, 0, nil
	} else if err != nil {
		return f, 0, err
	}
	// A record that cannot be read is that of an unknown cluster, and is replaced like any other
	// if it stays the same.
	f, _ = parseFounding(found.Value)
	return f, uint64(found.Revision), nil
}

func parseFounding(value []byte) (f membership.Founding, err error) {
	var r foundingRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return f, err
	}
	return membership.Founding{Founder: transport.Address(r.Founder), Node: transport.Address(r.Node), Server: r.Server}, nil
}

func formatFounding(f membership.Founding) ([]byte, error) {
	return json.Marshal(foundingRecord{1, origin(f.Founder), origin(f.Node), f.Server})
}

func writeFounding(ctx context.Context, s store.Store, cluster string, r membership.FoundingRequest) (revision uint64, err error) {
	value, err := formatFounding(r.Founding)
	if err != nil {
		return 0, err
	}
	next, err := s.Put(ctx, FoundingKey(cluster), value, store.Revision(r.Over))
	return uint64(next), err
}

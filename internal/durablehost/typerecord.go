package durablehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/store"
)

// A Type has the properties of a durable type that must not change, since its entities
// could not be found any more.
type Type struct {
	Format  int    `json:"format"` // 1
	Cluster string `json:"cluster"`
	Shards  uint32 `json:"shards"`
	Hash    string `json:"hash"` // the name of the shard function
}

const typeFormat = 1

// TypeKey is the key of a type's record.
func TypeKey(kind string) string { return "types/" + kind }

// ErrType is a durable type that the store has in another form; test with errors.Is.
var ErrType = errors.New("the store has the type in another form")

// CheckType records the type in the store at its first use. Later it returns an error if the type
// differs.
func CheckType(ctx context.Context, s store.Store, kind string, want Type) error {
	key := TypeKey(kind)
	want.Format = typeFormat
	value, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if _, err = s.Put(ctx, key, value, store.None); err == nil {
		return nil
	}
	found, getErr := s.Get(ctx, key)
	switch {
	case errors.Is(getErr, store.ErrNotFound):
		return err
	case getErr != nil:
		return getErr
	}
	var have Type
	if err := json.Unmarshal(found.Value, &have); err != nil {
		return fmt.Errorf("type %s: record %q of the store is damaged: %w (restore it from a backup)", kind, key, err)
	}
	return have.differs(kind, want)
}

// CheckVolatile returns an error if the store has the type as a durable one of that cluster: a program
// whose type is volatile would hide all acknowledged changes.
func CheckVolatile(ctx context.Context, s store.Store, cluster, kind string) error {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	found, err := s.Get(ctx, TypeKey(kind))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var have Type
	if err := json.Unmarshal(found.Value, &have); err == nil && have.Cluster != cluster {
		return nil // a type of another cluster, which has the same name
	}
	return fmt.Errorf("type %s: %w: durable, and volatile in this program, which would begin its entities anew "+
		"(write durable in its directive, or give it another name=; shardctl store delete %s -force deletes them)", kind, ErrType, kind)
}

// differs returns an error that names the differences between the type in the store and want.
func (t Type) differs(kind string, want Type) error {
	switch {
	case t.Format > typeFormat:
		return fmt.Errorf("type %s: %w: format %d, this program reads %d (run the newer program here too)", kind, ErrType, t.Format, typeFormat)
	case t.Cluster != want.Cluster:
		return fmt.Errorf("type %s: %w: it belongs to cluster %s, and this one is %s (give each cluster a store with a Name of its own)", kind, ErrType, t.Cluster, want.Cluster)
	case t.Shards != want.Shards:
		return fmt.Errorf("type %s: %w: %d shards, and %d in this program (keep shards=%d in its directive: the number cannot be changed)", kind, ErrType, t.Shards, want.Shards, t.Shards)
	case t.Hash != want.Hash:
		return fmt.Errorf("type %s: %w: shard function %s, and %s in this program (keep the function: it cannot be changed)", kind, ErrType, t.Hash, want.Hash)
	}
	return nil
}

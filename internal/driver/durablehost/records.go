package durablehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/internal/util/tasks"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/transport"
)

// IdentityKey returns the key of the record that identifies a cluster's store.
func IdentityKey(cluster string) string { return "cluster/" + cluster }

// Identity returns the stored identity of the store: a random number, and the name of the node that
// first used the store for the cluster. The first node writes its own number and name by
// compare-and-set. Identity retries temporary errors until ctx ends.
func Identity(ctx context.Context, s store.Store, cluster, node string, number uint64) (string, error) {
	key, own := IdentityKey(cluster), strconv.FormatUint(number, 16)+" of "+node
	for {
		_, err := s.Put(ctx, key, []byte(own), store.None)
		if err == nil {
			return own, nil
		}
		if errors.Is(err, store.ErrConflict) {
			var found store.Record
			if found, err = s.Get(ctx, key); err == nil {
				return string(found.Value), nil
			}
		}
		retry := errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUncertain) || errors.Is(err, store.ErrBusy)
		if !retry || !tasks.Rest(ctx, 50*time.Millisecond) { // a replica may lag behind the conflict
			return "", fmt.Errorf("identify the store by its record %q: %w", key, err)
		}
	}
}

// CheckIdentity checks that the store still has the given identity. The error wraps ErrOtherStore
// in two cases: the connection now leads to another store, or the store has lost the record of its
// identity.
func CheckIdentity(ctx context.Context, s store.Store, cluster, identity string) error {
	found, err := s.Get(ctx, IdentityKey(cluster))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%w: it has no record %q, but this node started with the store %q", ErrOtherStore, IdentityKey(cluster), identity)
	case err != nil:
		return err
	case string(found.Value) != identity:
		return fmt.Errorf("%w: it is %q, but this node started with the store %q", ErrOtherStore, found.Value, identity)
	}
	return nil
}

// ErrOtherStore is returned when a connection leads to another store than before.
var ErrOtherStore = errors.New("another store answers")

// ProbeKey returns the key of a record that a cluster's members write only to see whether the store
// takes writes.
func ProbeKey(cluster string) string { return "probe/" + cluster }

// TryWrite writes the record of ProbeKey. A conflict with another process that writes it at the
// same time counts as success, because the store then takes writes.
func TryWrite(ctx context.Context, s store.Store, cluster string) error {
	key := ProbeKey(cluster)
	found, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	_, err = s.Put(ctx, key, []byte{1}, found.Revision)
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) {
		return nil
	}
	return err
}

// TermsKey returns the key of the record of a cluster's coordinator terms.
func TermsKey(cluster string) string { return "terms/" + cluster }

// NextTerm chooses, records and returns the term of a coordinator that takes over. The term is at
// least atLeast, and higher than every earlier term, even than those before a full restart. before
// is the term recorded until then; 0 means that there was no record. NextTerm makes one attempt.
func NextTerm(ctx context.Context, s store.Store, cluster string, atLeast uint32) (next, before uint32, err error) {
	key := TermsKey(cluster)
	found, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, 0, err
	}
	term := uint64(0)
	if err == nil {
		if term, err = strconv.ParseUint(string(found.Value), 10, 32); err != nil {
			return 0, 0, fmt.Errorf("record %q of the store is damaged: %w (restore it, or write a number above all earlier terms)", key, err)
		}
	}
	before = uint32(term)
	term = max(term+1, uint64(atLeast))
	if term >= 1<<32 {
		return 0, 0, fmt.Errorf("record %q of the store has reached the last term", key)
	}
	if _, err := s.Put(ctx, key, strconv.AppendUint(nil, term, 10), found.Revision); err != nil {
		return 0, 0, err
	}
	return uint32(term), before, nil
}

// LastTerm returns the highest term in the store's record; 0 means that there is no record.
func LastTerm(ctx context.Context, s store.Store, cluster string) (uint32, error) {
	found, err := s.Get(ctx, TermsKey(cluster))
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	term, err := strconv.ParseUint(string(found.Value), 10, 32)
	return uint32(term), err
}

// RaiseTerm makes the recorded term at least met, so that later coordinators have higher terms than
// met. It does not lower the recorded term. It returns the term that is recorded then.
func RaiseTerm(ctx context.Context, s store.Store, cluster string, met uint32) (last uint32, err error) {
	key := TermsKey(cluster)
	found, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	if term, err := strconv.ParseUint(string(found.Value), 10, 32); err == nil && uint32(term) >= met {
		return uint32(term), nil
	}
	_, err = s.Put(ctx, key, strconv.AppendUint(nil, uint64(met), 10), found.Revision)
	return met, err
}

// FoundingKey returns the key of the record that names a cluster's founder.
func FoundingKey(cluster string) string { return "founding/" + cluster }

type foundingRecord struct {
	Format  int    `json:"format"` // 1
	Founder origin `json:"founder"`
	Node    origin `json:"node"`   // the member that wrote the record
	Server  string `json:"server"` // the broker instance behind its connection
}

type origin struct {
	Name        string `json:"name"`
	Incarnation uint64 `json:"incarnation,string"`
}

// Founding reads or writes the record of a cluster's founder, as requested by r. It makes one
// attempt.
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
	// An unreadable record is handled like the record of an unknown cluster: it is replaced if it
	// does not change for a while.
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

// A Type is the record of a durable type in the store. Cluster, Shards and Hash must not change,
// because stored entities could otherwise not be found.
type Type struct {
	Format  int    `json:"format"` // 1
	Cluster string `json:"cluster"`
	Shards  uint32 `json:"shards"`
	Hash    string `json:"hash"`             // name of the shard function
	Paused  *Pause `json:"paused,omitempty"` // the reminders' pause; nil: they run
}

const typeFormat = 1

// TypeKey returns the key of a durable type's record.
func TypeKey(kind string) string { return "types/" + kind }

// ErrType is returned if a type in the program differs from the type's record in the store; test
// with errors.Is.
var ErrType = errors.New("the store has the type in another form")

// CheckType records the type's description (want) in the store when the type is first used. Later
// it returns an error if want differs from the recorded description.
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
	have, _, getErr := ReadType(ctx, s, kind)
	switch {
	case errors.Is(getErr, ErrVolatile):
		return err
	case getErr != nil:
		return getErr
	}
	return have.differs(kind, want)
}

// CheckVolatile returns an error if a type that is volatile in this program is durable in the
// store, for the same cluster. Hosted as volatile, it would hide all acknowledged changes.
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
	return fmt.Errorf("type %s: %w: it is durable there but volatile in this program, which would not load its entities "+
		"(write durable in its directive, or give it another name=; shardctl store delete %s -force deletes them)", kind, ErrType, kind)
}

func (t Type) differs(kind string, want Type) error {
	switch {
	case t.Format > typeFormat:
		return fmt.Errorf("type %s: %w: format %d, this program reads %d (run the newer program here too)", kind, ErrType, t.Format, typeFormat)
	case t.Cluster != want.Cluster:
		return fmt.Errorf("type %s: %w: it belongs to cluster %s, but this is cluster %s (give each cluster a store with a Name of its own)", kind, ErrType, t.Cluster, want.Cluster)
	case t.Shards != want.Shards:
		return fmt.Errorf("type %s: %w: %d shards in the store, and %d in this program (keep shards=%d in its directive: the number cannot change while the type has data)", kind, ErrType, t.Shards, want.Shards, t.Shards)
	case t.Hash != want.Hash:
		return fmt.Errorf("type %s: %w: shard function %s, and %s in this program (keep the function: it cannot be changed)", kind, ErrType, t.Hash, want.Hash)
	}
	return nil
}

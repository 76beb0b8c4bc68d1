package membertable

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/store"
)

// A Table is the membership table of one cluster. All methods are safe for concurrent use, make one
// attempt, and return when ctx ends. A write then fails with ErrUncertain, or with ErrUnavailable
// if nothing was sent; a read fails with ErrUnavailable. These errors wrap ctx's error. All errors
// are of type [*store.Error], with a cause of package store. Every method may fail with
// ErrUnavailable and ErrBadKey, and every write also with ErrUncertain.
type Table interface {
	// Read returns the table. since is the version that the caller has, or 0. If it is not 0 and no
	// row was deleted after that version, Read may return only the rows that were written after it.
	// Snapshot.Since then equals since.
	Read(ctx context.Context, since Version) (Snapshot, error)
	// Write inserts 1 to MaxRows rows, if the table's version is expect. It replaces rows with the
	// same IDs, and raises the version by at least the number of rows, all in one atomic step. It
	// returns the new version. Row.Alive and Row.Version are ignored. The rows are not kept.
	// Errors: ErrConflict, ErrTooLarge.
	Write(ctx context.Context, expect Version, rows ...Row) (Version, error)
	// Delete removes the rows with these IDs, 1 to MaxDelete, if the table's version is expect. It
	// raises the version, and returns the new one. An ID without a row is ignored. Errors:
	// ErrConflict.
	Delete(ctx context.Context, expect Version, ids []ID) (Version, error)
	// Alive sets Row.Alive of the row with this ID, if there is one, without changing the
	// table's version. Readers may see it late. After any error it may be tried again.
	Alive(ctx context.Context, id ID, at time.Time) error
}

// A Provider is a store that has a table for each cluster.
type Provider interface {
	// Members returns the table of a cluster, whose name obeys CheckName. It sends nothing:
	// the table's methods return the errors.
	Members(cluster string) Table
}

// A Version numbers the states of a table. A later state has a higher version, and numbers may be
// left out. Versions stay below 2^32: a table begins at [First], and clusters write less than one
// row a second on average.
type Version uint64

// First returns the first version of a table that is created at the time now: the number of seconds
// since 2020. So if a table is lost and created again, its versions are above all versions that the
// lost table had.
func First(now time.Time) Version {
	return Version(max(now.Unix()-time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), 1))
}

// Bounds of a table.
const (
	// MaxName is the longest name of a member or cluster, in bytes.
	MaxName = 64
	// MaxRow is the size of the largest row, in bytes as [Encode] encodes it. It also bounds the
	// sum of the sizes of the rows of one Write.
	MaxRow = 256 << 10
	// MaxRows is the largest number of rows of one Write.
	MaxRows = 100
	// MaxDelete is the largest number of rows that one Delete removes.
	MaxDelete = 100
)

// An ID identifies a row by the name and the incarnation of its member.
type ID struct {
	Name        string // obeys CheckName
	Incarnation uint64
}

// Compare orders IDs by name, then incarnation.
func (id ID) Compare(other ID) int {
	return cmp.Or(strings.Compare(id.Name, other.Name), cmp.Compare(id.Incarnation, other.Incarnation))
}

// String is the name and the incarnation in hexadecimal: "web-1#00c0ffee00c0ffee".
func (id ID) String() string { return fmt.Sprintf("%s#%016x", id.Name, id.Incarnation) }

// A Status is a member's status, as the cluster has agreed on it. A table accepts any text.
type Status string

// The statuses with which members write their rows.
const (
	Joining Status = "joining" // it has started, and checks that it reaches the active members
	Active  Status = "active"
	Leaving Status = "leaving" // it hands off its shards, and stops
	Dead    Status = "dead"    // it left, or was declared dead; final
)

// A Row describes one member. A table keeps its times to the microsecond.
type Row struct {
	ID
	Status     Status
	Roles      []string
	Data       []byte // what the member announces about itself; the table does not read it
	Suspicions []Suspicion
	Started    time.Time // by the clock of the member
	// Alive is when the member last wrote that it is alive, by the member's clock; zero if the
	// member never wrote that. Only Table.Alive sets it.
	Alive time.Time
	// Version is the version that the row's last Write gave the table. After a Write of several
	// rows it may be lower, but is above the version that the Write expected. The table sets it.
	Version Version
}

// A Suspicion is a vote to declare a member dead.
type Suspicion struct {
	By ID
	At time.Time // by the clock of the voter
}

// A Snapshot is one state of a table, or the changes since an earlier state.
type Snapshot struct {
	Version Version
	// Since is 0 if Rows has all rows. Otherwise Since is the version that the reader named: Rows
	// has only the rows written after that version, perhaps without Alive, and no row was deleted
	// after it.
	Since Version
	// Rows are sorted by ID. Others may share them: a reader must not change them.
	Rows []Row
}

// Over returns the whole table, from s and the whole snapshot old that the reader had before. If s
// has only changes, Over adds them to old. If s has all rows, Over returns s. If old is newer than
// s, Over returns old.
func (s Snapshot) Over(old Snapshot) Snapshot {
	switch {
	case s.Version < old.Version || s.Since != 0 && s.Version == old.Version:
		return old
	case s.Since == 0:
		return s
	}
	merged := Snapshot{Version: s.Version, Rows: make([]Row, 0, len(old.Rows)+len(s.Rows))}
	changed := s.Rows
	for _, row := range old.Rows {
		for len(changed) > 0 && changed[0].ID.Compare(row.ID) < 0 {
			merged.Rows = append(merged.Rows, changed[0])
			changed = changed[1:]
		}
		if len(changed) > 0 && changed[0].ID == row.ID {
			alive := row.Alive
			row, changed = changed[0], changed[1:]
			if row.Alive.Before(alive) {
				row.Alive = alive
			}
		}
		merged.Rows = append(merged.Rows, row)
	}
	merged.Rows = append(merged.Rows, changed...)
	return merged
}

// Row returns the row with this ID, and whether the snapshot has it.
func (s Snapshot) Row(id ID) (Row, bool) {
	i, found := slices.BinarySearchFunc(s.Rows, id, func(r Row, id ID) int { return r.ID.Compare(id) })
	if !found {
		return Row{}, false
	}
	return s.Rows[i], true
}

// CheckName returns an error wrapping store.ErrBadKey unless name has 1 to MaxName bytes, all of
// A-Z a-z 0-9 _ -.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: name has %d bytes: want 1 to %d", store.ErrBadKey, len(name), MaxName)
	}
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return fmt.Errorf("%w: name %q: byte %q (want A-Z a-z 0-9 _ -)", store.ErrBadKey, name, c)
		}
	}
	return nil
}

// CheckIDs returns an error wrapping store.ErrBadKey unless ids are valid for Delete: 1 to
// MaxDelete, and none twice.
func CheckIDs(ids []ID) error {
	if len(ids) == 0 || len(ids) > MaxDelete {
		return fmt.Errorf("%w: %d rows at once: want 1 to %d", store.ErrBadKey, len(ids), MaxDelete)
	}
	for i, id := range ids {
		if err := CheckName(id.Name); err != nil {
			return err
		}
		if slices.Contains(ids[:i], id) {
			return fmt.Errorf("%w: row %v occurs twice", store.ErrBadKey, id)
		}
	}
	return nil
}

// The names of operations, as in store.Error.
const (
	OpRead   = "read table"
	OpWrite  = "write row"
	OpDelete = "delete rows"
	OpAlive  = "write alive"
)

// Fail returns err as a [*store.Error] about an operation on the table of a cluster; nil stays nil.
func Fail(op, cluster string, err error) error {
	if err == nil {
		return nil
	}
	return &store.Error{Op: op, Key: cluster, Err: err}
}

// Package tablestore carries out requests to the membership table. It converts rows, and keeps
// them, so that later reads get only changes from the store.
package tablestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
	"github.com/shardgen/shardgen/transport"
)

// A Store reads and writes the membership table of one member's cluster. It is safe for concurrent
// use.
type Store struct {
	table membertable.Table

	mu    sync.Mutex
	known membertable.Snapshot // the newest snapshot that was read
	whole time.Time            // when all rows were read last
	made  *rows.Table          // known, decoded
}

// wholeEvery is the time between two reads of all rows. Only such a read shows the latest
// I-am-alive of every row. By default a row without a new I-am-alive is stale after this time.
const wholeEvery = 15 * time.Minute

// New returns a Store for the table of the member's cluster.
func New(table membertable.Table) *Store { return &Store{table: table} }

// Read carries out a read for the membership machine.
func (s *Store) Read(ctx context.Context, r core.TableRead) core.TableRows {
	ctx, cancel := context.WithTimeout(ctx, r.Within)
	defer cancel()
	s.mu.Lock()
	since := s.known.Version
	if time.Since(s.whole) >= wholeEvery {
		since = 0
	}
	s.mu.Unlock()
	got, err := s.table.Read(ctx, since)
	if err == nil {
		var table *rows.Table
		if table, err = s.take(got); err == nil {
			return core.TableRows{Number: r.Number, Table: table}
		}
	}
	return core.TableRows{Number: r.Number, Reason: err.Error()}
}

// Reach returns an error if the table does not answer. It does not change the known rows.
func (s *Store) Reach(ctx context.Context) error {
	s.mu.Lock()
	since := s.known.Version
	s.mu.Unlock()
	_, err := s.table.Read(ctx, since)
	return err
}

// take stores a snapshot, and returns the newest known table.
func (s *Store) take(got membertable.Snapshot) (*rows.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if got.Since > s.known.Version {
		return nil, fmt.Errorf("%w: the table returned changes since version %d, which this member has not read", store.ErrUnavailable, got.Since)
	}
	whole := got.Over(s.known)
	if s.made != nil && (got.Since != 0 || got.Version < s.known.Version) && whole.Version == s.known.Version {
		return s.made, nil
	}
	table := &rows.Table{Version: uint64(whole.Version), Rows: make([]rows.Row, 0, len(whole.Rows))}
	for _, row := range whole.Rows {
		if s.made != nil { // most rows are as they were
			before, ok := s.known.Row(row.ID)
			if old := s.made.Row(address(row.ID)); ok && old != nil && before.Version == row.Version {
				kept := *old
				kept.Alive = alive(row)
				table.Rows = append(table.Rows, kept)
				continue
			}
		}
		decoded, err := decode(row)
		if err != nil {
			return nil, err
		}
		table.Rows = append(table.Rows, decoded)
	}
	if err := table.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	s.known, s.made = whole, table
	if got.Since == 0 {
		s.whole = time.Now()
	}
	return table, nil
}

// Write carries out a write or a deletion for the membership machine.
func (s *Store) Write(ctx context.Context, w core.TableWrite) core.TableWritten {
	ctx, cancel := context.WithTimeout(ctx, w.Within)
	defer cancel()
	if len(w.Delete) > 0 {
		ids := make([]membertable.ID, 0, len(w.Delete))
		for _, a := range w.Delete {
			ids = append(ids, membertable.ID(a))
		}
		return written(w.Number)(s.table.Delete(ctx, membertable.Version(w.Version), ids))
	}
	list := make([]membertable.Row, 0, len(w.Rows))
	for i := range w.Rows {
		row, err := encode(&w.Rows[i])
		if err != nil {
			return core.TableWritten{Number: w.Number, Reason: err.Error()}
		}
		list = append(list, row)
	}
	return written(w.Number)(s.table.Write(ctx, membertable.Version(w.Version), list...))
}

// Alive writes an I-am-alive, the time at which this member was alive, to its row.
func (s *Store) Alive(ctx context.Context, self transport.Address, a core.TableAlive) core.TableWritten {
	ctx, cancel := context.WithTimeout(ctx, a.Within)
	defer cancel()
	return written(a.Number)(0, s.table.Alive(ctx, membertable.ID(self), a.At))
}

func written(number uint64) func(membertable.Version, error) core.TableWritten {
	return func(v membertable.Version, err error) core.TableWritten {
		answer := core.TableWritten{Number: number, Done: err == nil, Version: uint64(v), Conflict: errors.Is(err, store.ErrConflict)}
		if err != nil {
			answer.Reason = err.Error()
		}
		return answer
	}
}

func address(id membertable.ID) transport.Address { return transport.Address(id) }

type description struct {
	Status      gossip.Status     `json:"status"`
	UpNumber    uint32            `json:"age,omitempty"`
	ExitReady   bool              `json:"exitReady,omitempty"`
	Forced      bool              `json:"forced,omitempty"`
	Judged      bool              `json:"judged,omitempty"`
	Fenced      bool              `json:"fenced,omitempty"`
	Quarantined bool              `json:"quarantined,omitempty"`
	Meta        []gossip.KeyValue `json:"meta,omitempty"`
	Compat      []gossip.KeyValue `json:"compat,omitempty"`
	Founder     transport.Address `json:"founder"`
	Server      string            `json:"server,omitempty"`
	Ended       time.Time         `json:"ended,omitzero"`
	Touched     uint64            `json:"touched,omitempty"`
}

func status(r *rows.Row) membertable.Status {
	switch {
	case r.Status >= gossip.Down:
		return membertable.Dead
	case r.Status >= gossip.Leaving:
		return membertable.Leaving
	case r.Status == gossip.Up:
		return membertable.Active
	}
	return membertable.Joining
}

func encode(r *rows.Row) (membertable.Row, error) {
	data, err := json.Marshal(description{
		r.Status, r.UpNumber, r.ExitReady, r.Forced, r.Judged, r.Fenced, r.Quarantined, r.Meta, r.Compat, r.Founder, r.Server, r.Ended, r.Touched,
	})
	row := membertable.Row{ID: membertable.ID(r.Address), Status: status(r), Roles: r.Roles, Data: data, Started: r.Started}
	for _, s := range r.Suspicions {
		row.Suspicions = append(row.Suspicions, membertable.Suspicion{By: membertable.ID(s.By), At: s.At})
	}
	return row, err
}

// alive returns the latest time at which a member was certainly alive: the time of its last
// I-am-alive or, before the first one, the time of its start.
func alive(row membertable.Row) time.Time {
	if row.Alive.Before(row.Started) {
		return row.Started
	}
	return row.Alive
}

func decode(row membertable.Row) (rows.Row, error) {
	var d description
	if err := json.Unmarshal(row.Data, &d); err != nil {
		return rows.Row{}, fmt.Errorf("%w: row %v of the membership table: %w", store.ErrUnavailable, row.ID, err)
	}
	r := rows.Row{
		Member: gossip.Member{
			Address: address(row.ID), Status: d.Status, Roles: slices.Clone(row.Roles), UpNumber: d.UpNumber, ExitReady: d.ExitReady,
			Forced: d.Forced, Judged: d.Judged, Fenced: d.Fenced, Quarantined: d.Quarantined, Meta: d.Meta,
		},
		Compat: d.Compat, Founder: d.Founder, Server: d.Server, Started: row.Started, Alive: alive(row), Ended: d.Ended, Touched: d.Touched,
	}
	for _, s := range row.Suspicions {
		r.Suspicions = append(r.Suspicions, rows.Suspicion{By: address(s.By), At: s.At})
	}
	return r, nil
}

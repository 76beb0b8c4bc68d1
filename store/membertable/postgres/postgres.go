// Package postgres is a membership table in PostgreSQL, through pgx. It is a module of its own,
// so that only its users depend on pgx.
//
//	pool, err := pgxpool.New(ctx, "postgres://…")
//	tables := postgres.New(pool)
//	err = tables.Create(ctx)
//	table := tables.Members("my-cluster")
//
// Every method is one statement, which PostgreSQL carries out in one transaction. A write locks
// the cluster's row of shardgen_membership, which has the version. The rows of members are
// readable by people:
//
//	SELECT * FROM shardgen_member WHERE cluster = 'my-cluster';
//
// The pool must lead to the primary server. Do not switch synchronous_commit off, and do not fail
// over to an asynchronous standby: a table may then lose its last writes, so that versions repeat.
package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
)

// Schema creates the tables unless they exist. An administrator may run it in place of
// [Store.Create]; a member then needs SELECT, INSERT, UPDATE and DELETE on both tables.
const Schema = `
CREATE TABLE IF NOT EXISTS shardgen_membership (
	cluster text   PRIMARY KEY,
	version bigint NOT NULL,
	deleted bigint NOT NULL -- the version of the last deletion
);
CREATE TABLE IF NOT EXISTS shardgen_member (
	cluster     text        NOT NULL,
	name        text        NOT NULL,
	incarnation text        NOT NULL, -- 16 hexadecimal digits
	status      text        NOT NULL,
	roles       text[]      NOT NULL,
	started     timestamptz,
	alive       timestamptz,
	suspicions  jsonb       NOT NULL,
	version     bigint      NOT NULL, -- that the last write of the row made
	data        bytea       NOT NULL,
	PRIMARY KEY (cluster, name, incarnation)
);`

// A Store has the membership tables of a database. It is safe for concurrent use.
type Store struct{ pool *pgxpool.Pool }

var _ membertable.Provider = (*Store)(nil)

// New returns a Store for the membership tables of the pool's database. It sends nothing. The
// caller must close the pool.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

// Connect connects to a database and creates those tables that do not exist. While the database
// cannot be reached, Connect tries again until ctx ends. Connect's connections stay open until the
// process ends. To close connections earlier, use [New] with a pool of your own.
func Connect(ctx context.Context, url string) (membertable.Provider, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("membertable: %w", err)
	}
	s, again := New(pool), time.NewTicker(time.Second)
	defer again.Stop()
	for {
		err := s.Create(ctx)
		if refused := (*pgconn.PgError)(nil); err == nil {
			return s, nil
		} else if ctx.Err() != nil || errors.As(err, &refused) {
			pool.Close()
			return nil, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// Create creates the tables unless they exist. Processes may call it at the same time.
func (s *Store) Create(ctx context.Context) error {
	// IF NOT EXISTS does not keep two sessions from creating one table at the same time.
	const lock = 0x7368617264 // "shard"
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", lock); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, Schema)
		return err
	})
	if err != nil {
		return fmt.Errorf("membertable: create tables: %w", err)
	}
	return nil
}

// Members implements [membertable.Provider].
func (s *Store) Members(cluster string) membertable.Table { return &table{s.pool, cluster} }

type table struct {
	pool    *pgxpool.Pool
	cluster string
}

type vote struct {
	Name        string    `json:"name"`
	Incarnation string    `json:"incarnation"`
	At          time.Time `json:"at,omitzero"`
}

func hexadecimal(n uint64) string { return fmt.Sprintf("%016x", n) }

const readTable = `
SELECT t.version, t.deleted, m.name, m.incarnation, m.status, m.roles, m.started, m.alive, m.suspicions, m.version, m.data
FROM shardgen_membership t LEFT JOIN shardgen_member m
ON m.cluster = t.cluster AND (m.version > $2 OR t.deleted > $2 OR t.version < $2)
WHERE t.cluster = $1`

// Read implements [membertable.Table].
func (t *table) Read(ctx context.Context, since membertable.Version) (membertable.Snapshot, error) {
	var s membertable.Snapshot
	err := t.do(ctx, store.ErrUnavailable, func(c *pgxpool.Conn) error {
		rows, err := c.Query(ctx, readTable, t.cluster, int64(since))
		if err != nil {
			return err
		}
		s.Rows, err = pgx.AppendRows(s.Rows, rows, func(row pgx.CollectableRow) (membertable.Row, error) {
			var deleted int64
			r, err := scan(row, &s.Version, &deleted)
			if since != 0 && membertable.Version(deleted) <= since && since <= s.Version {
				s.Since = since
			}
			return r, err
		})
		return err
	})
	if err != nil {
		return membertable.Snapshot{}, membertable.Fail(membertable.OpRead, t.cluster, err)
	}
	s.Rows = slices.DeleteFunc(s.Rows, func(r membertable.Row) bool { return r.Name == "" }) // of a table without rows
	slices.SortFunc(s.Rows, func(a, b membertable.Row) int { return a.ID.Compare(b.ID) })
	return s, nil
}

// scan reads a row of readTable. A member's columns are NULL if the table has no members.
func scan(row pgx.CollectableRow, version *membertable.Version, deleted *int64) (membertable.Row, error) {
	var r membertable.Row
	var tableVersion int64
	var name, incarnation, status *string
	var started, alive *time.Time
	var suspicions []byte
	var rowVersion *int64
	err := row.Scan(&tableVersion, deleted, &name, &incarnation, &status, &r.Roles, &started, &alive, &suspicions, &rowVersion, &r.Data)
	*version = membertable.Version(tableVersion)
	if err != nil || name == nil {
		return r, err
	}
	r.Name, r.Status, r.Version = *name, membertable.Status(*status), membertable.Version(*rowVersion)
	if r.Incarnation, err = strconv.ParseUint(*incarnation, 16, 64); err != nil {
		return r, fmt.Errorf("incarnation of %s: %w", *name, err)
	}
	if started != nil {
		r.Started = membertable.Time(*started)
	}
	if alive != nil {
		r.Alive = membertable.Time(*alive)
	}
	var votes []vote
	if err := json.Unmarshal(suspicions, &votes); err != nil {
		return r, fmt.Errorf("suspicions of %s: %w", *name, err)
	}
	for _, v := range votes {
		n, err := strconv.ParseUint(v.Incarnation, 16, 64)
		if err != nil {
			return r, fmt.Errorf("suspicions of %s: %w", *name, err)
		}
		r.Suspicions = append(r.Suspicions, membertable.Suspicion{By: membertable.ID{Name: v.Name, Incarnation: n}, At: membertable.Time(v.At)})
	}
	return r, nil
}

// writeRows writes rows and raises the version by their number. A table's first version is
// membertable.First by the server's clock.
const writeRows = `
WITH raised AS (
	UPDATE shardgen_membership SET version = version + $4 WHERE cluster = $1 AND version = $2 RETURNING version
), created AS (
	INSERT INTO shardgen_membership (cluster, version, deleted)
	SELECT $1, extract(epoch FROM clock_timestamp())::bigint - extract(epoch FROM timestamptz '2020-01-01 00:00:00+00')::bigint, 0 WHERE $2 = 0
	ON CONFLICT DO NOTHING RETURNING version
), now AS (
	SELECT version FROM raised UNION ALL SELECT version FROM created
), written AS (
	INSERT INTO shardgen_member AS m (cluster, name, incarnation, status, roles, started, suspicions, data, version)
	SELECT $1, r.name, r.incarnation, r.status,
		ARRAY(SELECT role FROM jsonb_array_elements_text(r.roles) WITH ORDINALITY AS list (role, place) ORDER BY place),
		r.started, r.suspicions, decode(r.data, 'base64'), now.version
	FROM now, jsonb_to_recordset($3::jsonb)
		AS r (name text, incarnation text, status text, roles jsonb, started timestamptz, suspicions jsonb, data text)
	ON CONFLICT (cluster, name, incarnation) DO UPDATE SET
		status = excluded.status, roles = excluded.roles, started = excluded.started,
		suspicions = excluded.suspicions, data = excluded.data, version = excluded.version
)
SELECT version FROM now`

// A rowIn is a row for writeRows, in JSON.
type rowIn struct {
	Name        string     `json:"name"`
	Incarnation string     `json:"incarnation"`
	Status      string     `json:"status"`
	Roles       []string   `json:"roles"`
	Started     *time.Time `json:"started"`
	Suspicions  []vote     `json:"suspicions"`
	Data        []byte     `json:"data"`
}

// Write implements [membertable.Table].
func (t *table) Write(ctx context.Context, expect membertable.Version, rows ...membertable.Row) (membertable.Version, error) {
	if _, err := membertable.EncodeAll(rows); err != nil { // the checks
		return 0, membertable.Fail(membertable.OpWrite, t.cluster, err)
	}
	all := make([]rowIn, 0, len(rows))
	for _, row := range rows {
		in := rowIn{
			Name: row.Name, Incarnation: hexadecimal(row.Incarnation), Status: string(row.Status),
			Roles: append([]string{}, row.Roles...), Suspicions: []vote{}, Data: append([]byte{}, row.Data...),
		}
		for _, s := range row.Suspicions {
			in.Suspicions = append(in.Suspicions, vote{s.By.Name, hexadecimal(s.By.Incarnation), membertable.Time(s.At)})
		}
		if at := membertable.Time(row.Started); !at.IsZero() {
			in.Started = &at
		}
		all = append(all, in)
	}
	list, err := json.Marshal(all)
	if err != nil {
		return 0, membertable.Fail(membertable.OpWrite, t.cluster, fmt.Errorf("%w: %w", store.ErrBadKey, err))
	}
	return t.write(ctx, membertable.OpWrite, writeRows, t.cluster, int64(expect), list, int64(len(rows)))
}

const deleteRows = `
WITH raised AS (
	UPDATE shardgen_membership SET version = version + 1, deleted = version + 1
	WHERE cluster = $1 AND version = $2 RETURNING version
), gone AS (
	DELETE FROM shardgen_member m USING raised
	WHERE m.cluster = $1 AND (m.name, m.incarnation) IN (SELECT * FROM unnest($3::text[], $4::text[]))
)
SELECT version FROM raised`

// Delete implements [membertable.Table].
func (t *table) Delete(ctx context.Context, expect membertable.Version, ids []membertable.ID) (membertable.Version, error) {
	if err := membertable.CheckIDs(ids); err != nil {
		return 0, membertable.Fail(membertable.OpDelete, t.cluster, err)
	}
	var names, incarnations []string
	for _, id := range ids {
		names = append(names, id.Name)
		incarnations = append(incarnations, hexadecimal(id.Incarnation))
	}
	return t.write(ctx, membertable.OpDelete, deleteRows, t.cluster, int64(expect), names, incarnations)
}

// write runs a statement that returns the new version, or no row on a conflict.
func (t *table) write(ctx context.Context, op, statement string, args ...any) (membertable.Version, error) {
	var version int64
	err := t.do(ctx, store.ErrUncertain, func(c *pgxpool.Conn) error {
		err := c.QueryRow(ctx, statement, args...).Scan(&version)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrConflict
		}
		return err
	})
	if err != nil {
		return 0, membertable.Fail(op, t.cluster, err)
	}
	return membertable.Version(version), nil
}

// Alive implements [membertable.Table].
func (t *table) Alive(ctx context.Context, id membertable.ID, at time.Time) error {
	err := membertable.CheckName(id.Name)
	if err == nil {
		err = t.do(ctx, store.ErrUncertain, func(c *pgxpool.Conn) error {
			_, err := c.Exec(ctx, `UPDATE shardgen_member SET alive = $4 WHERE cluster = $1 AND name = $2 AND incarnation = $3`,
				t.cluster, id.Name, hexadecimal(id.Incarnation), membertable.Time(at))
			return err
		})
	}
	return membertable.Fail(membertable.OpAlive, t.cluster, err)
}

// do runs the function f on a connection. If a statement may have
// been carried out, do returns the error lost.
func (t *table) do(ctx context.Context, lost error, f func(*pgxpool.Conn) error) error {
	if err := membertable.CheckName(t.cluster); err != nil {
		return err
	}
	c, err := t.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	defer c.Release()
	return cause(f(c), lost)
}

// cause converts err to an error of package store. If the statement may have been carried out, that
// is the parameter lost.
func cause(err, lost error) error {
	var refused *pgconn.PgError
	switch {
	case err == nil || errors.Is(err, store.ErrConflict):
		return err
	case errors.As(err, &refused) && refused.Code == "40001" && errors.Is(lost, store.ErrUncertain):
		return fmt.Errorf("%w: %w", store.ErrConflict, err) // at the isolation level serializable
	case errors.As(err, &refused) && strings.HasPrefix(refused.Code, "57P"):
		return fmt.Errorf("%w: %w", lost, err) // the server ends; with synchronous replication it may have committed
	case errors.As(err, &refused) && refused.Code == "42501":
		return fmt.Errorf("%w: %w: %w (grant the right to the user)", store.ErrUnavailable, fs.ErrPermission, err)
	case errors.As(err, &refused) && refused.Code == "42P01":
		return fmt.Errorf("%w: %w (call Create, or run Schema)", store.ErrUnavailable, err)
	case errors.As(err, &refused), pgconn.SafeToRetry(err):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", lost, err)
}

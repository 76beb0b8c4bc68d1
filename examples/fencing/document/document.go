// Package document has an entity that keeps its text in a SQL database, where other programs can
// read it. The database refuses writes by a former home of the entity.
package document

import (
	"context"
	"database/sql"
	"errors"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// A Document has one text, which is in the database. The type is durable, so that its epochs grow
// across moves, crashes and full restarts.
//
//shard:entity durable
type Document struct {
	ID   string   `shard:"id"`
	Puts int64    `shard:"state"` // so far; in the store
	DB   Database `shard:"-"`
}

// A Database is the part of a *sql.DB that a Document uses.
type Database interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ErrFormerHome means that a newer home of the document has written to the database.
//
//shard:error
var ErrFormerHome = errors.New("this home of the document has been replaced")

// Schema creates the table, on PostgreSQL and on SQLite.
const Schema = `
CREATE TABLE IF NOT EXISTS document (
	id    TEXT PRIMARY KEY,
	text  TEXT NOT NULL,
	epoch BIGINT NOT NULL
)`

// put writes a row, unless a home with a higher epoch has written it.
const put = `
INSERT INTO document (id, text, epoch) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET text = excluded.text, epoch = excluded.epoch
WHERE document.epoch <= excluded.epoch`

// Put replaces the text.
func (d *Document) Put(ctx context.Context, text string) error {
	epoch, err := shard.Epoch(ctx)
	if err != nil {
		return err
	}
	result, err := d.DB.ExecContext(ctx, put, d.ID, text, int64(epoch))
	if err != nil {
		return err
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return err
	}
	if rows == 0 {
		return ErrFormerHome
	}
	d.Puts++
	return nil
}

// Text returns the text, which is empty before the first Put.
//
//shard:read
func (d *Document) Text(ctx context.Context) (text string, err error) {
	err = d.DB.QueryRowContext(ctx, `SELECT text FROM document WHERE id = $1`, d.ID).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return text, err
}

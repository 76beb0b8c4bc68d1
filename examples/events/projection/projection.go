// Package projection keeps a SQL table up to date with the entries of all accounts.
package projection

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/examples/events/account"
	shard "github.com/shardgen/shardgen/runtime"
)

// schema works on PostgreSQL and SQLite. The one row of table follower has the position after the
// last entry that table balance contains.
const schema = `
CREATE TABLE IF NOT EXISTS balance (
	account TEXT PRIMARY KEY,
	cents   BIGINT NOT NULL,
	entries BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS follower (
	name     TEXT PRIMARY KEY,
	position TEXT NOT NULL
);`

// Create creates the tables that do not exist.
func Create(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, schema)
	return err
}

// Run applies entries to the tables until ctx ends or an error occurs. Each entry is stored in one
// transaction with its position, and Run begins after the stored position. So each entry is applied
// exactly once, even if the process is killed. Only one process at a time may call Run.
func Run(ctx context.Context, db *sql.DB, accounts *account.AccountClient) error {
	from, err := stored(ctx, db)
	if err != nil {
		return fmt.Errorf("read the position: %w", err)
	}
	_, err = account.Follow(ctx, accounts, from, func(e shard.Event[account.Entry]) error {
		return apply(ctx, db, e)
	})
	return err
}

// stored returns the follower's position, initially "".
func stored(ctx context.Context, db *sql.DB) (at shard.Position, err error) {
	err = db.QueryRowContext(ctx, `SELECT position FROM follower WHERE name = 'balance'`).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return at, err
}

func apply(ctx context.Context, db *sql.DB, e shard.Event[account.Entry]) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO balance (account, cents, entries) VALUES ($1, $2, 1)
		ON CONFLICT (account) DO UPDATE SET cents = balance.cents + excluded.cents, entries = balance.entries + 1`,
		e.Entity, e.Event.Amount); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO follower (name, position) VALUES ('balance', $1)
		ON CONFLICT (name) DO UPDATE SET position = excluded.position`,
		string(e.Position)); err != nil {
		return err
	}
	return tx.Commit()
}

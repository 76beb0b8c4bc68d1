package sql

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"
	_ "github.com/ncruces/go-sqlite3/embed"

	"github.com/shardgen/shardgen/internal/test/pgproc"
)

// onEach runs f on a new SQLite database and on a new PostgreSQL database.
func onEach(t *testing.T, f func(t *testing.T, driver, source string)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, "sqlite3", "file:"+filepath.Join(t.TempDir(), "test.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_txlock=immediate")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		f(t, "pgx", startPostgres(t))
	})
}

// open opens a database, which is closed when the test ends.
func open(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// startPostgres runs a PostgreSQL server until the test ends and returns its data source.
func startPostgres(t *testing.T) string {
	t.Helper()
	return pgproc.Start(t, "", func(ctx context.Context, source string) error {
		db, err := sql.Open("pgx", source)
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }()
		return db.PingContext(ctx)
	}).Source("postgres")
}

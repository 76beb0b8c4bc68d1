package sql

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"
	_ "github.com/ncruces/go-sqlite3/embed"
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

// startPostgres runs a PostgreSQL server until the test ends and returns its data source. The
// server listens only on a Unix socket.
func startPostgres(t *testing.T) string {
	t.Helper()
	initdb, postgres := findPostgres(t, "initdb"), findPostgres(t, "postgres")
	// The path of a Unix socket has at most 107 bytes, and t.TempDir may have more.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := unprivileged(t, dir)
	data := filepath.Join(dir, "data")
	create := exec.Command(initdb, "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	create.SysProcAttr, create.Dir = as, dir
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := exec.Command(postgres, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	server.SysProcAttr, server.Dir, server.Stderr = as, dir, t.Output()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // at once: the data is not needed any more
		_ = server.Wait()
	})
	source := fmt.Sprintf("host=%s user=test dbname=postgres", dir)
	db := open(t, "pgx", source)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for again := time.Tick(20 * time.Millisecond); ; <-again {
		err := db.PingContext(ctx)
		if err == nil {
			return source
		}
		if ctx.Err() != nil {
			t.Fatal("PostgreSQL does not answer: ", err)
		}
	}
}

// findPostgres returns the path of one of PostgreSQL's programs, which are not in the PATH on
// Debian. It skips the test if there is none.
func findPostgres(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return path
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		t.Skipf("%s is not installed, so PostgreSQL is not tested (install the package postgresql)", name)
	}
	return found[len(found)-1]
}

// unprivileged returns the attributes to start a process that owns dir. PostgreSQL refuses to run
// as root, so root starts it as nobody.
func unprivileged(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip("PostgreSQL does not run as root: ", err)
	}
	uid, _ := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, _ := strconv.ParseUint(nobody.Gid, 10, 32)
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

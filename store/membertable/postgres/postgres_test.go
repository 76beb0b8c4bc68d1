package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
	"github.com/shardgen/shardgen/store/membertable/conformance"
	"github.com/shardgen/shardgen/store/membertable/postgres"
)

// A server is PostgreSQL on a Unix socket.
type server struct {
	dir     string
	program string
	host    string // for TCP; empty means that there is none
	port    string // also in the name of the socket
	as      *syscall.SysProcAttr
	cmd     *exec.Cmd
}

// start runs a server until the test ends, which listens on a TCP address of 127.0.0.1, too, unless
// that is empty.
func start(t *testing.T, address string) *server {
	t.Helper()
	initdb, program := find(t, "initdb"), find(t, "postgres")
	// The path of a Unix socket has at most 107 bytes, and t.TempDir may have more.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &server{dir: dir, program: program, port: "5432", as: unprivileged(t, dir)}
	if address != "" {
		if s.host, s.port, err = net.SplitHostPort(address); err != nil {
			t.Fatal(err)
		}
	}
	create := exec.Command(initdb, "-D", filepath.Join(dir, "data"), "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	create.SysProcAttr, create.Dir = s.as, dir
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.run(t)
	t.Cleanup(s.kill)
	return s
}

// run starts the process, and returns when it answers.
func (s *server) run(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(s.program, "-D", filepath.Join(s.dir, "data"), "-k", s.dir, "-p", s.port, "-c", "listen_addresses="+s.host, "-c", "fsync=off", "-c", "max_connections=300")
	s.cmd.SysProcAttr, s.cmd.Dir = s.as, s.dir
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pool := s.pool(t, "postgres", nil)
	for again := time.Tick(20 * time.Millisecond); ; <-again {
		err := pool.Ping(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("PostgreSQL does not answer: ", err)
		}
	}
}

// kill ends all processes of the server at once; what it has committed is in its files.
func (s *server) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	_ = s.cmd.Wait()
}

// pool opens connections to a database until the test ends.
func (s *server) pool(t *testing.T, database string, d *conformance.Dialer) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(fmt.Sprintf("host=%s port=%s user=test dbname=%s pool_max_conns=4", s.dir, s.port, database))
	if err != nil {
		t.Fatal(err)
	}
	if d != nil {
		cfg.ConnConfig.DialFunc = d.Dial
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// find returns the path of one of PostgreSQL's programs, which Debian keeps out of the PATH. It
// skips the test if there is none.
func find(t *testing.T, name string) string {
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

// unprivileged returns how to start a process that owns dir. PostgreSQL refuses to run as root,
// so root starts it as nobody.
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

var databases atomic.Uint64

// database makes one with nothing in it.
func (s *server) database(t *testing.T) string {
	t.Helper()
	name := fmt.Sprint("test", databases.Add(1))
	if _, err := s.pool(t, "postgres", nil).Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestConformance(t *testing.T) { run(t, "read committed", 10_000) }

// TestSerializable: a database may have another isolation level by default.
func TestSerializable(t *testing.T) { run(t, "serializable", 100) }

// run runs the suite on databases with a default isolation level.
func run(t *testing.T, isolation string, rows int) {
	s := start(t, "")
	conformance.Run(t, conformance.Subject{Open: func(t *testing.T) conformance.Harness {
		database := s.database(t)
		if err := postgres.New(s.pool(t, database, nil)).Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.pool(t, "postgres", nil).Exec(t.Context(), fmt.Sprintf("ALTER DATABASE %s SET default_transaction_isolation = '%s'", database, isolation)); err != nil {
			t.Fatal(err)
		}
		open := func(t *testing.T, cluster string) (membertable.Table, *conformance.Dialer) {
			d := &conformance.Dialer{}
			return postgres.New(s.pool(t, database, d)).Members(cluster), d
		}
		return conformance.Harness{
			Client: func(t *testing.T, cluster string) membertable.Table {
				return postgres.New(s.pool(t, database, nil)).Members(cluster)
			},
			Wait: func(d time.Duration) { <-time.After(d) },
			Hang: 100 * time.Millisecond,
			Rows: rows,
			Held: func(t *testing.T, cluster string) (membertable.Table, func(), func()) {
				c, d := open(t, cluster)
				return c, d.Hold, d.Open
			},
			Deaf: func(t *testing.T, cluster string) (membertable.Table, func(), func()) {
				c, d := open(t, cluster)
				return c, d.Deafen, d.Open
			},
			Restart: func(t *testing.T) { s.kill(); s.run(t) },
		}
	}})
}

// TestCreate: many processes create the tables at once, and whoever begins without them is told
// the remedy.
func TestCreate(t *testing.T) {
	s := start(t, "")
	database := s.database(t)
	tables := postgres.New(s.pool(t, database, nil))
	_, err := tables.Members("test").Read(t.Context(), 0)
	if want := "call Create"; !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("without tables: got %v, want %v and %q", err, store.ErrUnavailable, want)
	}
	var wg sync.WaitGroup
	for range 8 {
		pool := s.pool(t, database, nil)
		wg.Go(func() {
			if err := postgres.New(pool).Create(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	began := time.Now()
	v, err := tables.Members("test").Write(t.Context(), 0, membertable.Row{ID: membertable.ID{Name: "a"}})
	if first := membertable.First(began); err != nil || v < first || v > first+60 {
		t.Errorf("the first version is %d (%v), want %d", v, err, first)
	}
}

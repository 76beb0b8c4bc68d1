package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardgen/shardgen/internal/test/pgproc"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
	"github.com/shardgen/shardgen/store/membertable/conformance"
	"github.com/shardgen/shardgen/store/membertable/postgres"
)

// A server is a PostgreSQL process.
type server struct{ *pgproc.Server }

// start runs a server until the test ends, which listens on a TCP address, too, unless that is empty.
func start(t *testing.T, address string) *server {
	t.Helper()
	return &server{pgproc.Start(t, address, func(ctx context.Context, source string) error {
		conn, err := pgx.Connect(ctx, source)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})}
}

// pool opens connections to a database until the test ends.
func (s *server) pool(t *testing.T, database string, d *conformance.Dialer) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(s.Source(database) + " pool_max_conns=4")
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

var databases atomic.Uint64

// database makes an empty database and returns its name.
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
			Restart: func(t *testing.T) { s.Kill(); s.Run(t) },
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

package sql

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/fencing/document"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// TestDatabaseRefusesFormerHome stops a document's process between the beginning of its turn and
// its write. Another process becomes the document's home and writes. When the first process
// continues, the database must refuse its write.
func TestDatabaseRefusesFormerHome(t *testing.T) {
	onEach(t, func(t *testing.T, driver, source string) {
		db, url := open(t, driver, source), startServer(t)
		if _, err := db.ExecContext(t.Context(), document.Schema); err != nil {
			t.Fatal(err)
		}
		ps := newProcesses(t)
		for _, name := range []string{"a", "b", "c"} {
			ps.start(name, []string{role + "=host"}, url, name, driver, source)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		conn, err := shard.Dial(ctx, shard.Config{Cluster: "test", Name: "author", Transport: natstransport.New(url)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		novel := document.NewDocumentClient(conn).Ref("novel")
		put := make(chan error, 1)
		go func() { put <- novel.Put(ctx, "late") }()
		former := ps.wait("hesitates")
		former.signal(t, syscall.SIGSTOP)

		// The call is run again by the next home, because the first has not committed it.
		next := ps.wait("hesitates")
		next.proceed(t)
		if by := ps.wait("changed 1"); by != next {
			t.Fatalf("%s wrote, want %s", by.name, next.name)
		}
		if err := <-put; err != nil {
			t.Fatal(err)
		}
		if err := novel.Put(ctx, "last"); err != nil {
			t.Fatal(err)
		}
		former.signal(t, syscall.SIGCONT)
		former.proceed(t)
		if by := ps.wait("changed 0"); by != former {
			t.Errorf("the write of %s was refused, want that of %s", by.name, former.name)
		}
		if text, err := novel.Text(ctx); err != nil || text != "last" {
			t.Errorf("the text is %q, %v: want %q", text, err, "last")
		}
	})
}

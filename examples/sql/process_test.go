package sql

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/events/account"
	"github.com/shardgen/shardgen/examples/events/projection"
	"github.com/shardgen/shardgen/examples/fencing/document"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

// role is the environment variable that names a role. If it is set, the test program does not run
// tests: it runs in that role, as a process of a test.
const role = "SHARDGEN_SQL_ROLE"

// TestMain runs the tests, or the role in which a test has started this program.
func TestMain(m *testing.M) {
	var err error
	switch args := os.Args[1:]; os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "follow":
		err = follow(args[0], args[1], args[2])
	case "host":
		err = host(args[0], args[1], args[2], args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// follow keeps the projection's table up to date until its process is killed.
func follow(url, driver, source string) error {
	ctx := context.Background()
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	store, err := natsstore.Open(ctx, url, natsstore.Config{Name: "test"})
	if err != nil {
		return err
	}
	conn, err := shard.Dial(ctx, shard.Config{
		Cluster: "test", Name: "follower", Transport: natstransport.New(url), Store: store, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	fmt.Println("up")
	return projection.Run(ctx, db, account.NewAccountClient(conn))
}

// host hosts documents until its process is killed. It does not return even when its node has
// ended, so that a running turn continues.
func host(url, name, driver, source string) error {
	ctx := context.Background()
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	node, err := newNode(ctx, url, name, func(n *shard.Node) error {
		return document.HostDocument(n, func() *document.Document { return &document.Document{DB: hesitant{db}} })
	})
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	fmt.Println("up")
	<-node.Done()
	fmt.Fprintln(os.Stderr, name, "ended:", node.Err())
	select {}
}

// newNode returns a node that stores its entities in JetStream at url.
func newNode(ctx context.Context, url, name string, host func(*shard.Node) error) (*shard.Node, error) {
	store, err := natsstore.Open(ctx, url, natsstore.Config{Name: "test"})
	if err != nil {
		return nil, err
	}
	node := shard.New(shard.Config{
		Cluster: "test", Name: name, Transport: natstransport.New(url), Store: store, Logger: slog.New(slog.DiscardHandler),
	})
	return node, host(node)
}

// hesitant is a database that writes the text "late" only after the process has got a line on its
// standard input. It writes even if the turn has lost its shard meanwhile, and prints the number of
// changed rows.
type hesitant struct{ *sql.DB }

func (h hesitant) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if args[1] != "late" {
		return h.DB.ExecContext(ctx, query, args...)
	}
	fmt.Println("hesitates")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return nil, err
	}
	result, err := h.DB.ExecContext(context.WithoutCancel(ctx), query, args...)
	if err != nil {
		return nil, err
	}
	rows, err := result.RowsAffected()
	fmt.Println("changed", rows)
	return result, err
}

// startServer runs a NATS server with JetStream until the test ends.
func startServer(t *testing.T) (url string) {
	t.Helper()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	return server.ClientURL()
}

// A process is this program, started in another role.
type process struct {
	*exec.Cmd
	name  string
	input io.WriteCloser
}

// processes are the processes of one test.
type processes struct {
	t     *testing.T
	lines chan line
}

// A line is a line that a process printed.
type line struct {
	by   *process
	text string
}

func newProcesses(t *testing.T) processes { return processes{t, make(chan line, 16)} }

// start starts a process and waits until it is ready. The process is killed when the test ends.
func (ps processes) start(name string, env []string, args ...string) *process {
	ps.t.Helper()
	program, err := os.Executable()
	if err != nil {
		ps.t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(program, args...), name: name}
	p.Env = append(os.Environ(), env...)
	p.Stderr = ps.t.Output()
	out, err := p.StdoutPipe()
	if err != nil {
		ps.t.Fatal(err)
	}
	if p.input, err = p.StdinPipe(); err != nil {
		ps.t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		ps.t.Fatal(err)
	}
	ps.t.Cleanup(p.kill)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			ps.lines <- line{p, s.Text()}
		}
		ps.lines <- line{p, "has ended"}
	}()
	if by := ps.wait("up"); by != p {
		ps.t.Fatalf("%s printed that it is up, want %s", by.name, name)
	}
	return p
}

// wait waits until some process prints the text, and returns that process.
func (ps processes) wait(text string) *process {
	ps.t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case l := <-ps.lines:
			if l.text == text {
				return l.by
			}
			ps.t.Logf("%s: %s", l.by.name, l.text)
		case <-timeout:
			ps.t.Fatalf("no process printed %q within a minute", text)
		}
	}
}

// signal sends the process a signal.
func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// proceed makes a process write that waits in a hesitant database.
func (p *process) proceed(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(p.input, "\n"); err != nil {
		t.Fatal(err)
	}
}

// kill kills the process with SIGKILL.
func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

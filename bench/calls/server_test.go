package calls

import (
	"fmt"
	"os"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/shardgen/shardgen/internal/natsproc"
)

// serverURL is the nats-server process that all benchmarks share.
var (
	serverURL string
	serverPid int
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	server, err := natsproc.Run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	serverURL, serverPid = server.URL(), server.Pid()
	code := m.Run()
	if err := server.Kill(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// connect opens a connection that lasts as long as the test.
func connect(tb testing.TB) *nats.Conn {
	tb.Helper()
	conn, err := nats.Connect(serverURL)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	return conn
}

// Package pgproc runs a PostgreSQL server process for tests.
package pgproc

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A Server is a PostgreSQL server for a test. It listens on a Unix socket and, if Start got an
// address, on TCP. The database user is named "test" and needs no password. The server does not
// sync its files to the disk.
type Server struct {
	dir, program string
	host         string // for TCP; "" means that there is none
	port         string // also in the name of the socket
	as           *syscall.SysProcAttr
	cmd          *exec.Cmd
	ping         func(ctx context.Context, source string) error
}

// Start runs a server until the test ends. address is host:port for TCP, or "". Start returns when
// ping succeeds for a data source of the server. Without PostgreSQL the test is skipped.
func Start(t testing.TB, address string, ping func(ctx context.Context, source string) error) *Server {
	t.Helper()
	initdb, program := find(t, "initdb"), find(t, "postgres")
	// The path of a Unix socket has at most 107 bytes, and t.TempDir may have more.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{dir: dir, program: program, port: "5432", as: unprivileged(t, dir), ping: ping}
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
	s.Run(t)
	t.Cleanup(s.Kill)
	return s
}

// Source returns the data source of a database, over the Unix socket.
func (s *Server) Source(database string) string {
	return fmt.Sprintf("host=%s port=%s user=test dbname=%s", s.dir, s.port, database)
}

// Run starts the process again after Kill, and returns when it answers.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	s.cmd = exec.Command(s.program, "-D", filepath.Join(s.dir, "data"), "-k", s.dir, "-p", s.port,
		"-c", "listen_addresses="+s.host, "-c", "fsync=off", "-c", "max_connections=300")
	s.cmd.SysProcAttr, s.cmd.Dir, s.cmd.Stderr = s.as, s.dir, t.Output()
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for again := time.Tick(20 * time.Millisecond); ; <-again {
		err := s.ping(ctx, s.Source("postgres"))
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("PostgreSQL does not answer: ", err)
		}
	}
}

// Kill ends all processes of the server at once, as a crash does. Committed transactions remain in
// the server's files.
func (s *Server) Kill() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	_ = s.cmd.Wait()
}

// find returns the path of a program of PostgreSQL. It searches the PATH and Debian's folders for
// PostgreSQL.
func find(t testing.TB, name string) string {
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

// unprivileged returns the attributes of a process that owns dir. PostgreSQL refuses to run as
// root, so root starts it as nobody.
func unprivileged(t testing.TB, dir string) *syscall.SysProcAttr {
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

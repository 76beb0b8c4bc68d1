// Package natsproc runs a real nats-server as a process of its own, for tests
// and fault runs: it can be killed, paused and started again on its port. The
// program is built from the module cache, in the version of go.mod. Other programs
// start with [StartChild]. On Linux none of them outlives the process that started it.
package natsproc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// readyTimeout bounds the start of a server.
const readyTimeout = 30 * time.Second

// A Server is one nats-server process at one address, which it keeps over
// restarts. Its methods may be called from one goroutine at a time.
type Server struct {
	bin   string
	args  []string
	place Place  // nil: here
	tls   *TLS   // nil: clients connect without
	addr  string // host:port

	cmd    *exec.Cmd
	output *output
	exited chan error // of the process now running
}

// A TLS has the servers' side of TLS: the names of files in PEM. Servers use it with clients and,
// both ways, with each other.
type TLS struct {
	CA   string // the authority that clients and other servers trust
	Cert string // for all addresses of the servers, signed by CA
	Key  string // of Cert
}

// A Place is a host of another network, in which a server can run. Methods are
// called from any goroutine.
type Place interface {
	// Addr is the host's address, without a port.
	Addr() string
	// Do runs f on a thread of the host: a process that f starts runs there.
	Do(f func() error) error
	// Dial connects from that host.
	Dial(network, address string) (net.Conn, error)
}

// Run starts a server on a free port of 127.0.0.1 with more arguments for its
// command line, and returns when it is ready.
func Run(args ...string) (*Server, error) { return RunAt(nil, args...) }

// RunAt is Run on a host of another network; nil is 127.0.0.1 of this one.
func RunAt(place Place, args ...string) (*Server, error) { return runAt(place, nil, args...) }

// runAt is RunAt with TLS, unless it is nil: args must have the server use it.
func runAt(place Place, tls *TLS, args ...string) (*Server, error) {
	bin, err := Build()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, args: args, place: place, tls: tls}
	if s.addr, err = addressIn(place, clientPort); err != nil {
		return nil, fmt.Errorf("start nats-server: %w", err)
	}
	if err := s.Start(); err != nil {
		return nil, err
	}
	return s, nil
}

// clientPort is where servers of other places listen for clients: each has a place of its own.
const clientPort = "4222"

// addressIn is the address for a server at a port of a place, or at a free one of this host
// if place is nil.
func addressIn(place Place, port string) (string, error) {
	if place != nil {
		return net.JoinHostPort(place.Addr(), port), nil
	}
	return FreeAddress("127.0.0.1")
}

// Start is Run for a test: it fails t, and kills the server when t ends.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := Run(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Errorf("kill nats-server: %v", err)
		}
	})
	return s
}

// URL is where clients connect: "nats://127.0.0.1:49152", or "tls://127.0.0.1:49152".
func (s *Server) URL() string {
	if s.tls != nil {
		return "tls://" + s.addr
	}
	return "nats://" + s.addr
}

// Pid is the process id of the server now running, 0 if none.
func (s *Server) Pid() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Start starts the server again after Kill or Stop, on the same port.
func (s *Server) Start() error {
	if s.cmd != nil {
		return errors.New("start nats-server: it is running (Kill or Stop it first)")
	}
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	out := newOutput()
	cmd := exec.Command(s.bin, slices.Concat([]string{"-a", host, "-p", port}, s.args)...)
	cmd.Stderr = out
	release, err := StartChild(cmd, s.place)
	if err != nil {
		return fmt.Errorf("start nats-server: %w", err)
	}
	exited := make(chan error, 1)
	go func() { // Kill and Stop wait for it
		err := cmd.Wait()
		release()
		exited <- err
	}()
	s.cmd, s.exited, s.output = cmd, exited, out
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	select {
	case <-out.ready:
		return nil
	case err := <-exited:
		s.cmd = nil
		return fmt.Errorf("start nats-server: %s: it ended: %w\n%s", s.addr, err, out)
	case <-timeout.C:
		return errors.Join(fmt.Errorf("start nats-server: %s: not ready within %v\n%s", s.addr, readyTimeout, out), s.Kill())
	}
}

// Kill ends the server with SIGKILL and returns when the process is gone. It
// does nothing if no server runs.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// Stop ends the server with SIGTERM and returns when the process is gone.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

func (s *Server) end(sig os.Signal) error {
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.exited
	s.cmd = nil
	return nil
}

// Sync takes a copy of the server's store as it is on its disk now. Crash ends the server as a crash of its
// machine does, which loses what was not on the disk when the copy was taken, and starts it again.
func (s *Server) Sync() (crash func() error, err error) {
	i := slices.Index(s.args, "-sd")
	if i < 0 {
		return nil, errors.New("crash nats-server: it has no store")
	}
	folder := s.args[i+1]
	older := folder + ".synced"
	if err := os.RemoveAll(older); err != nil {
		return nil, err
	}
	if err := s.Pause(); err != nil {
		return nil, err
	}
	if err := errors.Join(os.CopyFS(older, os.DirFS(folder)), s.Resume()); err != nil {
		return nil, fmt.Errorf("copy the store of nats-server: %w", err)
	}
	return func() error {
		if err := s.Kill(); err != nil {
			return err
		}
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		if err := os.Rename(older, folder); err != nil {
			return err
		}
		return s.Start()
	}, nil
}

// Pause holds the server still with SIGSTOP: its connections stay open and
// nothing moves on them.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

// Reload has the server read its configuration again. It does so a moment later.
func (s *Server) Reload() error { return s.signal(syscall.SIGHUP) }

func (s *Server) signal(sig os.Signal) error {
	if s.cmd == nil {
		return errors.New("signal nats-server: it is not running")
	}
	return s.cmd.Process.Signal(sig)
}

// Output is what the process that ran last has reported.
func (s *Server) Output() string { return s.output.String() }

var isReady = []byte("Server is ready")

// An output keeps what a server reports and finds out when it is ready.
type output struct {
	ready chan struct{}

	mu   sync.Mutex
	all  bytes.Buffer
	done bool
}

var _ io.Writer = (*output)(nil)

func newOutput() *output { return &output{ready: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all.Write(b)
	if !o.done && bytes.Contains(o.all.Bytes(), isReady) {
		o.done = true
		close(o.ready)
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

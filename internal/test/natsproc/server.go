// Package natsproc runs a real nats-server as a separate process, for tests and fault runs: the
// server can be killed, paused and restarted on its port. The program is compiled from the module
// cache, in the version that go.mod requires. [StartChild] starts other programs. On Linux none of
// the started processes outlives the process that started it.
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

const readyTimeout = 30 * time.Second

// A Server runs a nats-server process, and keeps its address when the process is restarted. Only
// one goroutine at a time may call its methods.
type Server struct {
	bin   string
	args  []string
	place Place  // nil: 127.0.0.1
	tls   *TLS   // nil: no TLS
	addr  string // host:port

	cmd    *exec.Cmd
	output *output
	exited chan error // exit of the running process
}

// A TLS has the servers' PEM files for TLS. Servers use them towards clients and, as client and
// server, with each other.
type TLS struct {
	CA   string // the authority that clients and servers trust
	Cert string // for all addresses of the servers, signed by CA
	Key  string // of Cert
}

// A Place is a host in another network that a server can run on. Any goroutine may call its
// methods.
type Place interface {
	// Addr is the host's address, without a port.
	Addr() string
	// Do runs f on a thread of the host, so that a process started by f runs on the host.
	Do(f func() error) error
	// Dial connects from the host.
	Dial(network, address string) (net.Conn, error)
}

// Run starts a server on a free port of 127.0.0.1, and returns when the server is ready. args are
// further command-line arguments of the server.
func Run(args ...string) (*Server, error) { return RunAt(nil, args...) }

// RunAt does what [Run] does, at place; nil is 127.0.0.1 of this network.
func RunAt(place Place, args ...string) (*Server, error) { return runAt(place, nil, args...) }

// runAt does what [RunAt] does. If tls is set, args must configure it.
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

// clientPort is for servers at places. Each place runs one server, so the port is free.
const clientPort = "4222"

// addressIn returns the address of a place with the port. Without a place it returns 127.0.0.1 with
// a free port.
func addressIn(place Place, port string) (string, error) {
	if place != nil {
		return net.JoinHostPort(place.Addr(), port), nil
	}
	return FreeAddress("127.0.0.1")
}

// Start does what [Run] does for a test: it fails t on an error, and kills the server when t ends.
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

// URL returns the URL for clients, such as "nats://127.0.0.1:49152" or "tls://127.0.0.1:49152".
func (s *Server) URL() string {
	if s.tls != nil {
		return "tls://" + s.addr
	}
	return "nats://" + s.addr
}

// Pid returns the process id of the running server, or 0 if no server runs.
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

// Sync copies the server's store as it is on disk now. The returned crash simulates a machine's crash:
// it kills the server, replaces the store by the copy, and starts the server again. Writes since Sync
// are lost.
func (s *Server) Sync() (crash func() error, err error) {
	i := slices.Index(s.args, "-sd")
	if i < 0 {
		return nil, errors.New("crash nats-server: it has no store (start it with -sd)")
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

// Pause stops the server with SIGSTOP: its connections stay open, but the server reads and writes
// nothing.
func (s *Server) Pause() error {
	if err := s.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStopped(s.Pid())
}

// Resume lets a paused server continue.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

// Reload makes the server read its configuration again. It returns before the server has done so.
func (s *Server) Reload() error { return s.signal(syscall.SIGHUP) }

func (s *Server) signal(sig os.Signal) error {
	if s.cmd == nil {
		return errors.New("signal nats-server: it is not running")
	}
	return s.cmd.Process.Signal(sig)
}

// Output returns what the last server process has printed.
func (s *Server) Output() string { return s.output.String() }

var isReady = []byte("Server is ready")

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

package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// readyTimeout bounds the start of a server, which takes milliseconds without JetStream.
const readyTimeout = 10 * time.Second

// Options configure the server. The zero value serves this machine only, on a free port, without
// JetStream.
type Options struct {
	// Name is the server's name. Default "shardgen-" and random letters and digits. Servers of one
	// NATS cluster need different names.
	Name string
	// Host is the address to listen on. Default "127.0.0.1". "0.0.0.0" opens the server to the
	// network, although it asks nobody for credentials.
	Host string
	// Port is the port to listen on. Default 0, which picks a free port, as -1 does.
	Port int
	// NoListen opens no port: only InProcess and Transport reach the server.
	NoListen bool
	// StoreDir is the folder for JetStream's files. Default "": no JetStream.
	StoreDir string
	// MaxPayload is the size of the largest message in bytes. Default 1 MiB; NATS advises against
	// more than 8 MiB.
	MaxPayload int
	// Logger receives the server's messages. Default nil: they are not logged.
	Logger *slog.Logger
}

// A Server is a NATS server that runs until Shutdown. It is safe for concurrent use.
type Server struct {
	server   *server.Server
	noListen bool
	shutdown sync.Once
}

// Start runs a server and returns once it accepts connections.
func Start(o Options) (*Server, error) {
	so := o.serverOptions()
	s, err := server.NewServer(so)
	if err != nil {
		return nil, fmt.Errorf("start embedded NATS server: %w", err)
	}
	log := &logger{to: o.Logger}
	s.SetLoggerV2(log, false, false, false)
	s.Start() // returns when the server listens, or has given up
	if !s.ReadyForConnections(log.patience()) {
		s.Shutdown()
		s.WaitForShutdown()
		cause := log.fatal()
		if cause == nil {
			cause = fmt.Errorf("the server is not ready within %v", readyTimeout)
		}
		return nil, fmt.Errorf("start embedded NATS server: %s: %w (is another server running there? Port 0 picks a free one)",
			net.JoinHostPort(so.Host, strconv.Itoa(so.Port)), cause)
	}
	return &Server{server: s, noListen: o.NoListen}, nil
}

func (o Options) serverOptions() *server.Options {
	so := &server.Options{
		ServerName: o.Name,
		Host:       o.Host,
		Port:       o.Port,
		DontListen: o.NoListen,
		JetStream:  o.StoreDir != "",
		StoreDir:   o.StoreDir,
		MaxPayload: int32(o.MaxPayload),
		NoSigs:     true, // else the server exits the whole process on a signal
	}
	if so.ServerName == "" {
		so.ServerName = "shardgen-" + nuid.Next()
	}
	if so.Host == "" {
		so.Host = "127.0.0.1"
	}
	if so.Port == 0 {
		so.Port = server.RANDOM_PORT
	}
	return so
}

// ClientURL returns the URL for clients, such as "nats://127.0.0.1:49152". It is empty with
// NoListen.
func (s *Server) ClientURL() string {
	if s.noListen {
		return ""
	}
	return s.server.ClientURL()
}

// InProcess returns an option by which a connection reaches this server through memory.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s.server) }

// Transport returns a transport that reaches this server through memory, without a socket.
func (s *Server) Transport(opts ...natstransport.Option) *natstransport.Transport {
	return natstransport.New("", append(opts, natstransport.ConnectOptions(s.InProcess()))...)
}

// Shutdown stops the server and returns when it has stopped. It may be called
// more than once.
func (s *Server) Shutdown() {
	s.shutdown.Do(s.server.Shutdown)
	s.server.WaitForShutdown()
}

// A logger keeps a fatal message; the server's own logger would exit the process.
type logger struct {
	to *slog.Logger

	mu    sync.Mutex
	cause error
}

func (l *logger) log(level slog.Level, format string, v []any) {
	if l.to != nil {
		l.to.Log(context.Background(), level, "nats-server", "report", fmt.Sprintf(format, v...))
	}
}

func (l *logger) Noticef(format string, v ...any) { l.log(slog.LevelInfo, format, v) }
func (l *logger) Warnf(format string, v ...any)   { l.log(slog.LevelWarn, format, v) }
func (l *logger) Errorf(format string, v ...any)  { l.log(slog.LevelError, format, v) }
func (l *logger) Debugf(format string, v ...any)  { l.log(slog.LevelDebug, format, v) }
func (l *logger) Tracef(format string, v ...any)  { l.log(slog.LevelDebug, format, v) }

func (l *logger) Fatalf(format string, v ...any) {
	l.log(slog.LevelError, format, v)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		l.cause = fmt.Errorf(format, v...)
	}
}

func (l *logger) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

func (l *logger) patience() time.Duration {
	if l.fatal() != nil {
		return time.Nanosecond
	}
	return readyTimeout
}

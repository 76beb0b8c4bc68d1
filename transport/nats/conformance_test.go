package natstransport_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/transport/conformance"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

func startEmbedded(t testing.TB, o embedded.Options) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func port(t testing.TB, s *embedded.Server) int {
	t.Helper()
	_, p, err := net.SplitHostPort(s.ClientURL()[len("nats://"):])
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(p)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestConformanceEmbedded(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		s := startEmbedded(t, embedded.Options{})
		url, p := s.ClientURL(), port(t, s)
		return conformance.Harness{
			Transport:   natstransport.New(url),
			StopBroker:  func() { s.Shutdown() },
			StartBroker: func() { s = startEmbedded(t, embedded.Options{Port: p}) },
		}
	})
}

// A process that was killed with SIGKILL does not close its connections.
func TestConformanceProcess(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		s := natsproc.Start(t)
		return conformance.Harness{
			Transport: natstransport.New(s.URL()),
			StopBroker: func() {
				if err := s.Kill(); err != nil {
					t.Fatal(err)
				}
			},
			StartBroker: func() {
				if err := s.Start(); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func TestMain(m *testing.M) { conformance.Main(m) }

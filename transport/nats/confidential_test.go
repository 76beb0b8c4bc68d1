package natstransport_test

import (
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// A farDialer makes connections that seem to lead to another host.
type farDialer string

func (d farDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return farConn{c, d}, err
}

type farConn struct {
	net.Conn
	at farDialer
}

func (c farConn) RemoteAddr() net.Addr { return farAddr(c.at) }

type farAddr string

func (farAddr) Network() string  { return "tcp" }
func (a farAddr) String() string { return string(a) }

// TestConfidential: a connection is confidential with TLS, or on the same host.
func TestConfidential(t *testing.T) {
	cert, key := writeCertificate(t)
	plain, err := natsproc.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Kill() })
	secure, err := natsproc.Run("-tls", "-tlscert", cert, "-tlskey", key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = secure.Kill() })
	over := strings.Replace(secure.URL(), "nats://", "tls://", 1)
	for _, tt := range []struct {
		name string
		url  string
		far  farDialer
		want bool
	}{
		{"loopback", plain.URL(), "", true},
		{"another host", plain.URL(), "10.0.0.1:4222", false},
		{"another host of IPv6", plain.URL(), "[2001:db8::1]:4222", false},
		{"a name", plain.URL(), "nats.example:4222", false},
		{"loopback of IPv6", plain.URL(), "[::1]:4222", true},
		{"another host with TLS", over, "10.0.0.1:4222", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			options := []nats.Option{nats.RootCAs(cert)}
			if tt.url != over {
				options = nil
			}
			if tt.far != "" {
				options = append(options, nats.SetCustomDialer(tt.far))
			}
			l, err := natstransport.New(tt.url, natstransport.ConnectOptions(options...)).Open(t.Context(), transport.Options{
				Cluster: "confidential", Self: transport.Address{Name: "a", Incarnation: 1}, Lanes: 1,
				OnState: func(transport.Channel, transport.State) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			if err := l.(transport.Confidential).Confidential(); (err == nil) != tt.want {
				t.Errorf("confidential: %v, want %v", err, tt.want)
			}
		})
	}
}

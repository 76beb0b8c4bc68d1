package natstransport_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// writeCertificate makes a self-signed certificate for 127.0.0.1.
func writeCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certDER, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: certDER},
		key:  {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	cert, key := writeCertificate(t)
	s := natsproc.Start(t, "--tls", "--tlscert", cert, "--tlskey", key)
	wantOpenError(t, natstransport.New(s.URL()), "unknown authority", "RootCAs")

	url := strings.Replace(s.URL(), "nats://", "tls://", 1)
	a, states := openStates(t, url, natstransport.ConnectOptions(nats.RootCAs(cert)))
	wantState(t, states, true)
	for _, payload := range []string{"over TLS", "after a restart"} {
		if err := a.Send(0, transport.Peer{Address: nodeA}, 0, []byte(payload)); err != nil {
			t.Fatal(err)
		}
		wantMessage(t, a, 0, transport.Direct, payload)
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		wantState(t, states, false)
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		wantState(t, states, true)
	}
}

// Open with TLS fails at once for a server without TLS.
func TestTLSWanted(t *testing.T) {
	s := natsproc.Start(t)
	wantOpenError(t, natstransport.New(strings.Replace(s.URL(), "nats://", "tls://", 1)), "secure connection", "disagree about TLS")
}

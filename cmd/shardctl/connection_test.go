package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/natsproc"
)

// A user of the test's server alone.
const (
	testUser = "UCEPUCGTXJZHK7LKDJ45N6QRU4CZCAUT7OZRJUM5SYWC4P7IW3QDJCRT"
	testSeed = "SUAKPWF7RSRWI4HSVWXGVKX54KK22OBPH7BCWF75R4P44DEG3MHFRCPWIA"
)

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeCertificate makes a certificate for both sides on 127.0.0.1 that is its own authority.
func writeCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	certDER, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certDER})),
		writeFile(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// A server that asks for a client certificate and an NKey takes those of the flags.
func TestClientCertificateAndNKey(t *testing.T) {
	cert, key := writeCertificate(t)
	seed := writeFile(t, "user.nk", []byte(testSeed))
	config := writeFile(t, "server.conf", fmt.Appendf(nil,
		"authorization { users: [{nkey: %s}] }\ntls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }\n", testUser, cert, key, cert))
	server := natsproc.Start(t, "-c", config)
	base := "members -timeout 3s -cluster c -nats " + strings.Replace(server.URL(), "nats://", "tls://", 1) + " -ca " + cert
	withCert := base + " -cert " + cert + " -key " + key
	const connected = "no process of this cluster answers"
	for _, tt := range []struct{ args, stderr string }{
		{base + " -nkey " + seed, "reach cluster c"}, // the server may hang up before it says why
		{withCert, "uthorization"},
		{withCert + " -nkey " + seed, connected},
	} {
		shardctl(t, nil, tt.args).check(t, tt.args, exitFailed, "", tt.stderr)
	}
}

func TestConnectionFlags(t *testing.T) {
	for _, tt := range []struct{ args, stderr string }{
		{"members -cluster c -cert a", "-cert and -key"},
		{"members -cluster c -key a", "-cert and -key"},
		{"members -cluster c -creds a -nkey b", "-creds and -nkey"},
		{"store list -creds a -nkey b", "-creds and -nkey"},
	} {
		shardctl(t, nil, tt.args).check(t, tt.args, exitUsage, "", tt.stderr)
	}
	shardctl(t, nil, "members -cluster c -nkey /nowhere").check(t, "-nkey /nowhere", exitFailed, "", "/nowhere")
}
